//! Convolutions of integers against their definition, a sum at a time: of both types of bytes, with
//! groups, strides, dilations and padding, with sums that FLOAT has exactly and with those that it
//! has in several parts only.

use crate::common::proto::{Sketch, int, ints};
use proptest::prelude::*;
use tract_onnx::prelude::*;
use tract_onnx_cast::{ElementType, tensor_proto};

use ElementType::{Float, Int8, Int32, Uint8};

#[derive(Debug, Clone)]
struct Convolution {
    /// Of data, weights and output.
    signed: [bool; 3],
    group: usize,
    /// Channels in and out of a group.
    channels: [usize; 2],
    size: [usize; 2],
    kernel: [usize; 2],
    stride: usize,
    dilation: usize,
    pad: usize,
    zeros: [u8; 3],
    /// Whether weights have a scale and a zero point for each channel.
    is_by_channel: bool,
    has_bias: bool,
    /// Whether the data's zero point is an input of the model.
    is_zero_data: bool,
    /// Whether all bytes are as far from 0 as they can be.
    is_extreme: bool,
    seed: u64,
}

fn convolutions() -> impl Strategy<Value = Convolution> {
    let shape = (1..4usize, [1..40usize, 1..5], [1..7usize, 1..7], [1..4usize, 1..4]);
    let steps = (1..3usize, 1..3usize, 0..3usize);
    let rest = (any::<[u8; 3]>(), any::<[bool; 4]>(), any::<u64>());
    (any::<[bool; 3]>(), shape, steps, rest).prop_map(|(signed, shape, steps, rest)| {
        let (group, channels, size, kernel) = shape;
        let (stride, dilation, pad) = steps;
        let (zeros, [is_by_channel, has_bias, is_zero_data, is_extreme], seed) = rest;
        Convolution {
            signed,
            group,
            channels,
            size: [0, 1].map(|axis| size[axis] + dilation * (kernel[axis] - 1)),
            kernel,
            stride,
            dilation,
            pad,
            zeros,
            is_by_channel,
            has_bias,
            is_zero_data,
            is_extreme,
            seed,
        }
    })
}

fn number(byte: u8, is_signed: bool) -> i64 {
    if is_signed { i64::from(byte as i8) } else { i64::from(byte) }
}

fn bytes(values: &[u8], shape: &[usize], is_signed: bool) -> Tensor {
    if is_signed {
        let values: Vec<i8> = values.iter().map(|byte| *byte as i8).collect();
        Tensor::from_shape(shape, &values).unwrap()
    } else {
        Tensor::from_shape(shape, values).unwrap()
    }
}

impl Convolution {
    /// Bytes that look like nothing in particular (splitmix64).
    fn bytes(&self, salt: u64, count: usize, is_signed: bool) -> Vec<u8> {
        let mut state = self.seed ^ salt;
        let mut next = || {
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let z = (state ^ state >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            ((z ^ z >> 27) >> 24) as u8
        };
        let extreme = if is_signed { 0x80 } else { 0xff };
        (0..count).map(|_| if self.is_extreme { extreme } else { next() }).collect()
    }

    fn out(&self) -> usize {
        self.group * self.channels[1]
    }

    fn shapes(&self) -> [Vec<usize>; 2] {
        let data = vec![2, self.group * self.channels[0], self.size[0], self.size[1]];
        [data, vec![self.out(), self.channels[0], self.kernel[0], self.kernel[1]]]
    }

    fn weight_zeros(&self) -> Vec<u8> {
        if self.is_by_channel { self.bytes(3, self.out(), false) } else { vec![self.zeros[1]] }
    }

    /// The size of the output along its axes, and its sums.
    fn sums(&self, data: &[u8], weights: &[u8]) -> ([usize; 2], Vec<i64>) {
        let [data_shape, _] = self.shapes();
        let out = [0, 1].map(|axis| {
            let reach = self.dilation * (self.kernel[axis] - 1);
            (self.size[axis] + 2 * self.pad - reach - 1) / self.stride + 1
        });
        let zeros = self.weight_zeros();
        let mut sums = vec![];
        for place in 0..2 * self.out() * out[0] * out[1] {
            let (x, y) = (place % out[1], place / out[1] % out[0]);
            let channel = place / (out[0] * out[1]) % self.out();
            let item = place / (out[0] * out[1] * self.out());
            let first = channel / self.channels[1] * self.channels[0];
            let mut sum = 0;
            for c in 0..self.channels[0] {
                for (i, j) in
                    (0..self.kernel[0]).flat_map(|i| (0..self.kernel[1]).map(move |j| (i, j)))
                {
                    let row = (y * self.stride + i * self.dilation).wrapping_sub(self.pad);
                    let column = (x * self.stride + j * self.dilation).wrapping_sub(self.pad);
                    if row >= self.size[0] || column >= self.size[1] {
                        continue;
                    }
                    let at = ((item * data_shape[1] + first + c) * self.size[0] + row)
                        * self.size[1]
                        + column;
                    let weight = ((channel * self.channels[0] + c) * self.kernel[0] + i)
                        * self.kernel[1]
                        + j;
                    sum += (number(data[at], self.signed[0])
                        - number(self.zeros[0], self.signed[0]))
                        * (number(weights[weight], self.signed[1])
                            - number(zeros[channel % zeros.len()], self.signed[1]));
                }
            }
            sums.push(sum);
        }
        (out, sums)
    }

    fn attributes(&self) -> Vec<tract_onnx::pb::AttributeProto> {
        vec![
            int("group", self.group as i64),
            ints("strides", &[self.stride as i64; 2]),
            ints("dilations", &[self.dilation as i64; 2]),
            ints("pads", &[self.pad as i64; 4]),
        ]
    }

    /// What both operators make, and what they are to make.
    fn check(&self) {
        let byte = |is_signed| if is_signed { Int8 } else { Uint8 };
        let [data_shape, weights_shape] = self.shapes();
        let data = self.bytes(1, data_shape.iter().product(), self.signed[0]);
        let weights = self.bytes(2, weights_shape.iter().product(), self.signed[1]);
        let dims: Vec<i64> = data_shape.iter().map(|size| *size as i64).collect();
        let zeros = self.weight_zeros();
        let shape: &[usize] = if self.is_by_channel { &[self.out()] } else { &[] };
        let zero = bytes(&self.zeros[..1], &[], self.signed[0]);
        let constants = [
            ("w", byte(self.signed[1]), bytes(&weights, &weights_shape, self.signed[1])),
            ("wz", byte(self.signed[1]), bytes(&zeros, shape, self.signed[1])),
            ("yz", byte(self.signed[2]), bytes(&self.zeros[2..], &[], self.signed[2])),
        ];
        let sketch = || {
            let mut sketch = Sketch::new().input("x", byte(self.signed[0]), &dims);
            sketch = if self.is_zero_data {
                sketch.input("xz", byte(self.signed[0]), &[])
            } else {
                let zero = tensor_proto::write("xz", byte(self.signed[0]), &zero);
                sketch.initializer(zero.unwrap())
            };
            constants.iter().fold(sketch, |sketch, (name, ty, tensor)| {
                sketch.initializer(tensor_proto::write(name, *ty, tensor).unwrap())
            })
        };
        let input = || {
            let mut inputs = vec![bytes(&data, &data_shape, self.signed[0])];
            inputs.extend(self.is_zero_data.then(|| zero.clone()));
            inputs
        };
        let (out, sums) = self.sums(&data, &weights);
        let out_dims = [2, self.out() as i64, out[0] as i64, out[1] as i64];
        let sketch_of_sums = sketch()
            .node("ConvInteger", &["x", "w", "xz", "wz"], &["y"], self.attributes())
            .output("y", Int32, &out_dims);
        let made = sketch_of_sums.run(input()).unwrap();
        let made: Vec<i32> =
            made[0].to_plain_array_view::<i32>().unwrap().iter().copied().collect();
        assert_eq!(made, sums.iter().map(|sum| *sum as i32).collect::<Vec<_>>());

        let scales: Vec<f32> =
            (0..zeros.len()).map(|place| 1e-3 * (1. + place as f32 % 7.)).collect();
        let bias: Vec<i32> = (0..self.out()).map(|place| 977 * place as i32 - 1500).collect();
        let mut names = vec!["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"];
        names.extend(self.has_bias.then_some("b"));
        let float = |name: &str, tensor: &Tensor| tensor_proto::write(name, Float, tensor).unwrap();
        let scale_tensor = Tensor::from_shape(shape, &scales).unwrap();
        let sketch = sketch()
            .initializer(float("xs", &tensor0(0.03f32)))
            .initializer(float("ws", &scale_tensor))
            .initializer(float("ys", &tensor0(0.07f32)))
            .initializer(tensor_proto::write("b", Int32, &tensor1(&bias)).unwrap())
            .node("QLinearConv", &names, &["y"], self.attributes())
            .output("y", byte(self.signed[2]), &out_dims);
        let made = sketch.run(input()).unwrap().remove(0).cast_to::<i32>().unwrap().into_owned();
        let made: Vec<i32> = made.to_plain_array_view::<i32>().unwrap().iter().copied().collect();
        let expected = sums.iter().enumerate().map(|(place, sum)| {
            let channel = place / (out[0] * out[1]) % self.out();
            let sum = sum + if self.has_bias { i64::from(bias[channel]) } else { 0 };
            let scaled = sum as f32 * (scales[channel % scales.len()] * 0.03 / 0.07);
            let (least, most) = if self.signed[2] { (-128, 127) } else { (0, 255) };
            let rounded = scaled.round_ties_even() as i64 + number(self.zeros[2], self.signed[2]);
            rounded.clamp(least, most) as i32
        });
        assert_eq!(made, expected.collect::<Vec<i32>>());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn convolutions_of_integers_are_exact(convolution in convolutions()) {
        convolution.check();
    }
}

/// More than FLOAT has exactly in one sum, and in one sum of a group.
#[test]
fn sums_beyond_24_bits_are_exact() {
    for group in [1, 2] {
        let convolution = Convolution {
            signed: [false, true, true],
            group,
            channels: [90, 2],
            size: [4, 4],
            kernel: [3, 3],
            stride: 1,
            dilation: 1,
            pad: 1,
            zeros: [0, 0, 7],
            is_by_channel: false,
            has_bias: true,
            is_zero_data: false,
            is_extreme: true,
            seed: 0,
        };
        convolution.check();
        Convolution { is_extreme: false, ..convolution }.check();
    }
}

/// Operators that stand alone have a model of FLOAT in them; those whose weights are data have
/// tract's.
#[test]
fn constant_weights_are_convolved_in_float() {
    let plan = |is_constant: bool| {
        let weights = bytes(&[3; 36], &[2, 2, 3, 3], true);
        let mut sketch = Sketch::new().input("x", Uint8, &[1, 2, 8, 8]);
        sketch = if is_constant {
            sketch.initializer(tensor_proto::write("w", Int8, &weights).unwrap())
        } else {
            sketch.input("w", Int8, &[2, 2, 3, 3])
        };
        let sketch = sketch.node("ConvInteger", &["x", "w"], &["y"], vec![]).output(
            "y",
            Int32,
            &[1, 2, 6, 6],
        );
        let model = sketch.load().unwrap().into_optimized().unwrap();
        let is_float = |node: &TypedNode| node.outputs[0].fact.datum_type == DatumType::F32;
        model.nodes().iter().any(is_float)
    };
    assert!(plan(true));
    assert!(!plan(false));
}
