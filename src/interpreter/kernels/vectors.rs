//! `SVMClassifier` and `SVMRegressor`: support vector machines as libsvm has them, in DOUBLE.

use tract_onnx::prelude::tract_ndarray::{Array2, ArrayD, ArrayView1, Axis};
use tract_onnx::prelude::*;

use super::transforms::{logistic, transformed};
use super::{KernelInputs, KernelOutputs, KernelSite};
use crate::cast::element_type::ElementType;
use crate::interpreter::value::TypedTensor;

/// Support vectors, a row each, and how alike another one is.
struct Machine {
    vectors: Array2<f64>,
    kernel: String,
    gamma: f64,
    offset: f64,
    degree: f64,
}

impl Machine {
    fn of(site: &KernelSite, count: usize) -> TractResult<Machine> {
        let numbers = floats(site, "support_vectors");
        let width = numbers.len().checked_div(count).unwrap_or(0);
        let Ok(vectors) = Array2::from_shape_vec((count, width), numbers) else {
            return site.refuse(format!("has {count} support vectors that are not of one length"));
        };
        let kernel = site.word("kernel_type");
        if !["LINEAR", "POLY", "RBF", "SIGMOID"].contains(&&*kernel) {
            return site.refuse(format!("has attribute `kernel_type` {kernel:?}"));
        }
        let (gamma, offset, degree) = match floats(site, "kernel_params")[..] {
            [] => (0.0, 0.0, 0.0),
            [gamma, offset, degree] => (gamma, offset, degree),
            _ => return site.refuse("has other than three numbers in `kernel_params`"),
        };
        Ok(Machine { vectors, kernel, gamma, offset, degree })
    }

    /// How alike a row is to each of the vectors.
    fn kernels(&self, row: ArrayView1<f64>) -> Vec<f64> {
        let kernel = |vector: ArrayView1<f64>| {
            let product = || self.gamma * row.dot(&vector) + self.offset;
            match &*self.kernel {
                "POLY" => product().powf(self.degree),
                "SIGMOID" => product().tanh(),
                "RBF" => {
                    let apart = &row - &vector;
                    (-self.gamma * apart.dot(&apart)).exp()
                }
                _ => row.dot(&vector),
            }
        };
        self.vectors.axis_iter(Axis(0)).map(kernel).collect()
    }
}

fn floats(site: &KernelSite, name: &str) -> Vec<f64> {
    let given = site.attribute(name).map(|given| given.floats).unwrap_or_default();
    given.into_iter().map(f64::from).collect()
}

/// The rows of the input, of which each has as many numbers as `width`.
fn rows(site: &KernelSite, inputs: &KernelInputs, width: usize) -> TractResult<Array2<f64>> {
    let rows: Array2<f64> = site.of_rank(inputs, 0, 2)?.into_dimensionality()?;
    if rows.ncols() != width {
        let found = rows.ncols();
        return site.refuse(format!("has rows of {found} numbers, for vectors of {width}"));
    }
    Ok(rows)
}

fn sum(coefficients: &[f64], kernels: &[f64]) -> f64 {
    coefficients.iter().zip(kernels).map(|(weight, kernel)| weight * kernel).sum()
}

fn made(scores: Vec<f64>, shape: [usize; 2]) -> TractResult<TypedTensor> {
    let scores = ArrayD::from_shape_vec(shape.to_vec(), scores)?.into_tensor();
    TypedTensor::new(ElementType::Float, scores.cast_to::<f32>()?.into_owned())
}

/// `SVMRegressor`: a sum over the vectors, or, without any, over the features.
pub(super) fn regressor(site: &KernelSite, inputs: &KernelInputs) -> KernelOutputs {
    // Of one score ONNX Runtime makes no softmax.
    let transform = site.word("post_transform");
    if !["NONE", "SOFTMAX", "SOFTMAX_ZERO"].contains(&&*transform) {
        return site.refuse(format!("has a `post_transform` {transform} of one score"));
    }
    let coefficients = floats(site, "coefficients");
    let [offset] = floats(site, "rho")[..] else {
        return site.refuse("has other than one number in `rho`");
    };
    let count = usize::try_from(site.int("n_supports")).unwrap_or(0);
    let machine = (count > 0).then(|| Machine::of(site, count)).transpose()?;
    if machine.is_some() && coefficients.len() != count {
        let found = coefficients.len();
        return site.refuse(format!("has {found} coefficients for {count} support vectors"));
    }
    let width = machine.as_ref().map_or(coefficients.len(), |machine| machine.vectors.ncols());
    let rows = rows(site, inputs, width)?;
    let is_sign = site.int("one_class") != 0;
    let score = |row: ArrayView1<f64>| {
        let score = match &machine {
            Some(machine) => sum(&coefficients, &machine.kernels(row)),
            None => sum(&coefficients, &row.to_vec()),
        };
        match score + offset {
            score if !is_sign => score,
            score if score > 0.0 => 1.0,
            _ => -1.0,
        }
    };
    let scores: Vec<f64> = rows.axis_iter(Axis(0)).map(score).collect();
    let count = scores.len();
    Ok(vec![made(scores, [count, 1])?])
}

/// A classifier that asks of each pair of classes which it is.
struct ClassPairs {
    machine: Machine,
    /// Each class' first vector, and the end of the last class.
    starts: Vec<usize>,
    /// By the other class of a pair, as many as there are classes less one, and by vector.
    coefficients: Vec<Vec<f64>>,
    offsets: Vec<f64>,
    /// What makes a probability of a score, by pair.
    slopes: Vec<(f64, f64)>,
    labels: usize,
    transform: String,
}

/// `SVMClassifier`: the class that wins most of its pairs, and the scores of the pairs or the
/// probabilities of the classes.
pub(super) fn classifier(site: &KernelSite, inputs: &KernelInputs) -> KernelOutputs {
    let pairs = ClassPairs::of(site)?;
    let rows = rows(site, inputs, pairs.machine.vectors.ncols())?;
    let (mut winners, mut scores) = (vec![], vec![]);
    for row in rows.axis_iter(Axis(0)) {
        let (winner, row) = pairs.classify(row);
        winners.push(winner);
        scores.extend(row);
    }
    let columns = pairs.columns();
    Ok(vec![labels(site, &winners)?, made(scores, [winners.len(), columns])?])
}

fn labels(site: &KernelSite, winners: &[usize]) -> TractResult<TypedTensor> {
    if let Some(numbers) = site.ints("classlabels_ints") {
        let picked = winners.iter().filter_map(|winner| numbers.get(*winner).copied());
        return TypedTensor::native(tensor1(&picked.collect::<Vec<i64>>()));
    }
    let texts = site.attribute("classlabels_strings").map(|given| given.strings);
    let texts = texts.unwrap_or_default();
    let text =
        |winner: &usize| texts.get(*winner).map(|text| String::from_utf8_lossy(text).into_owned());
    TypedTensor::native(tensor1(&winners.iter().filter_map(text).collect::<Vec<String>>()))
}

impl ClassPairs {
    fn of(site: &KernelSite) -> TractResult<ClassPairs> {
        let sizes = site.ints("vectors_per_class").unwrap_or_default();
        if sizes.is_empty() {
            return site
                .refuse("has no `vectors_per_class`, without which nothing here computes it");
        }
        let mut starts = vec![0usize];
        for size in &sizes {
            let end = usize::try_from(*size).ok();
            let end = end.and_then(|size| starts.last().and_then(|last| last.checked_add(size)));
            match end.filter(|end| *end <= super::MOST) {
                Some(end) => starts.push(end),
                None => return site.refuse(format!("has {size} in `vectors_per_class`")),
            }
        }
        let (classes, vectors) = (sizes.len(), starts.last().copied().unwrap_or(0));
        let texts = site.attribute("classlabels_strings").map(|given| given.strings.len());
        let labels = site.ints("classlabels_ints").map(|labels| labels.len()).or(texts);
        let coefficients = floats(site, "coefficients");
        let offsets = floats(site, "rho");
        let (first, second) = (floats(site, "prob_a"), floats(site, "prob_b"));
        let pairs = classes * (classes - 1) / 2;
        let fits = classes > 1
            && vectors > 0
            && labels == Some(classes)
            && coefficients.len() == vectors * (classes - 1)
            && offsets.len() == pairs
            && first.len() == second.len()
            && (first.is_empty() || first.len() == pairs);
        if !fits {
            return site.refuse(format!(
                "has labels, coefficients, `rho`, `prob_a` or `prob_b` that do not fit {classes} classes of {vectors} vectors"
            ));
        }
        let pairs = ClassPairs {
            machine: Machine::of(site, vectors)?,
            starts,
            coefficients: coefficients.chunks(vectors).map(<[f64]>::to_vec).collect(),
            offsets,
            slopes: first.into_iter().zip(second).collect(),
            labels: classes,
            transform: site.word("post_transform"),
        };
        pairs.check(site)
    }

    /// Refuses what onnx's evaluator and ONNX Runtime do not agree about.
    fn check(self, site: &KernelSite) -> TractResult<ClassPairs> {
        let is_bare = self.labels == 2 && self.slopes.is_empty();
        let is_known = match &*self.transform {
            "NONE" | "LOGISTIC" => true,
            "SOFTMAX" | "SOFTMAX_ZERO" | "PROBIT" => !is_bare,
            _ => false,
        };
        if !is_known {
            let (transform, labels) = (&self.transform, self.labels);
            return site.refuse(format!("has a `post_transform` {transform} of {labels} classes"));
        }
        let is_positive = self.coefficients.iter().flatten().all(|weight| *weight >= 0.0);
        if is_bare && is_positive {
            return site.refuse("has no coefficient below 0, of two classes");
        }
        Ok(self)
    }

    fn columns(&self) -> usize {
        match (self.labels, self.slopes.is_empty()) {
            (2, _) => 2,
            (labels, false) => labels,
            (_, true) => self.offsets.len(),
        }
    }

    /// The vectors of a class, of a list that has an entry for each vector.
    fn of_class<'a>(&self, class: usize, list: &'a [f64]) -> &'a [f64] {
        let bounds = self.starts.get(class).zip(self.starts.get(class + 1));
        bounds.and_then(|(start, end)| list.get(*start..*end)).unwrap_or_default()
    }

    fn classify(&self, row: ArrayView1<f64>) -> (usize, Vec<f64>) {
        let kernels = self.machine.kernels(row);
        let mut votes = vec![0usize; self.labels];
        let mut scores = vec![];
        let others = (0..self.labels).flat_map(|i| (i + 1..self.labels).map(move |j| (i, j)));
        for ((i, j), offset) in others.zip(&self.offsets) {
            let part = |class: usize, weights: usize| {
                let weights = self.coefficients.get(weights).map_or(&[][..], Vec::as_slice);
                sum(self.of_class(class, weights), self.of_class(class, &kernels))
            };
            let score = offset + part(i, j - 1) + part(j, i);
            if let Some(votes) = votes.get_mut(if score > 0.0 { i } else { j }) {
                *votes += 1;
            }
            scores.push(score);
        }
        let most = votes.iter().max().copied().unwrap_or(0);
        let winner = votes.iter().position(|votes| *votes == most).unwrap_or(0);
        if !self.slopes.is_empty() {
            scores = self.probabilities(&scores);
        } else if let [score] = scores[..] {
            scores = vec![-score, score];
        }
        (winner, transformed(&self.transform, scores))
    }

    /// The probabilities of the classes by those of the pairs: the second method of Wu, Lin and
    /// Weng (2004), as in libsvm.
    fn probabilities(&self, scores: &[f64]) -> Vec<f64> {
        let k = self.labels;
        let mut pairwise = Array2::<f64>::zeros((k, k));
        let others = (0..k).flat_map(|i| (i + 1..k).map(move |j| (i, j)));
        for ((i, j), (score, (slope, shift))) in others.zip(scores.iter().zip(&self.slopes)) {
            let p = (1.0 - logistic(score * slope + shift)).clamp(1e-7, 1.0 - 1e-7);
            pairwise[[i, j]] = p;
            pairwise[[j, i]] = 1.0 - p;
        }
        let q = Array2::from_shape_fn((k, k), |(t, j)| {
            if t == j {
                (0..k).filter(|j| *j != t).map(|j| pairwise[[j, t]].powi(2)).sum()
            } else {
                -pairwise[[j, t]] * pairwise[[t, j]]
            }
        });
        let mut p = vec![1.0 / k as f64; k];
        let product = |p: &[f64], t: usize| -> f64 { (0..k).map(|j| q[[t, j]] * p[j]).sum() };
        for _ in 0..k.max(100) {
            let qp: Vec<f64> = (0..k).map(|t| product(&p, t)).collect();
            let pqp: f64 = p.iter().zip(&qp).map(|(p, qp)| p * qp).sum();
            if qp.iter().all(|qp| (qp - pqp).abs() < 0.005 / k as f64) {
                break;
            }
            for t in 0..k {
                let qp: Vec<f64> = (0..k).map(|t| product(&p, t)).collect();
                let pqp: f64 = p.iter().zip(&qp).map(|(p, qp)| p * qp).sum();
                let step = (pqp - qp[t]) / q[[t, t]];
                p[t] += step;
                p.iter_mut().for_each(|p| *p /= 1.0 + step);
            }
        }
        p
    }
}
