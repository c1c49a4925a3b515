//! A minimum cut of classes: which of them stay with those that must, so that the fewest values
//! need a cast (Dinic's way: as much as can flows on all of the shortest paths before they are
//! looked for again).
//!
//! A value is an edge of capacity 1 between two vertices of its own, which edges without a limit
//! join with its classes: it is cut where some of these stay and others do not.

use std::collections::{HashMap, HashSet, VecDeque};

const SOURCE: usize = 0;
const SINK: usize = 1;

/// Classes, by their numbers, and the values in which they meet.
#[derive(Debug)]
pub(super) struct Network {
    vertices: HashMap<usize, usize>,
    /// The edges that leave each vertex, by their places in `edges`.
    leaving: Vec<Vec<usize>>,
    /// Where each edge leads, and what more may flow through it. At the next even or odd place is
    /// its reverse.
    edges: Vec<(usize, u32)>,
}

impl Default for Network {
    fn default() -> Network {
        Network { vertices: HashMap::new(), leaving: vec![vec![], vec![]], edges: vec![] }
    }
}

impl Network {
    /// Says that a class stays.
    pub(super) fn stays(&mut self, class: usize) {
        let class = self.class(class);
        self.edge(SOURCE, class, u32::MAX);
    }

    /// Says that a class is converted.
    pub(super) fn converts(&mut self, class: usize) {
        let class = self.class(class);
        self.edge(class, SINK, u32::MAX);
    }

    /// Says that these classes meet in a value.
    pub(super) fn value(&mut self, classes: &[usize]) {
        if classes.len() < 2 {
            return;
        }
        let (first, last) = (self.vertex(), self.vertex());
        self.edge(first, last, 1);
        for class in classes {
            let class = self.class(*class);
            self.edge(class, first, u32::MAX);
            self.edge(last, class, u32::MAX);
        }
    }

    /// The classes that stay: the fewest with which the cut is the smallest.
    pub(super) fn cut(mut self) -> HashSet<usize> {
        // Which vertices more can flow to at the end does not depend on the ways that it took.
        loop {
            let levels = self.levels();
            if level(&levels, SINK).is_none() {
                let classes = self.vertices.iter();
                let staying = classes.filter(|(_, vertex)| level(&levels, **vertex).is_some());
                return staying.map(|(class, _)| *class).collect();
            }
            self.fill(&levels);
        }
    }

    /// How many edges away each vertex is, `None` where no more can flow to it.
    fn levels(&self) -> Vec<Option<usize>> {
        let mut levels = vec![None; self.leaving.len()];
        let mut queue = VecDeque::from([(SOURCE, 0)]);
        while let Some((vertex, distance)) = queue.pop_front() {
            match levels.get_mut(vertex) {
                Some(held @ None) => *held = Some(distance),
                _ => continue,
            }
            for edge in self.leaving.get(vertex).into_iter().flatten() {
                let Some((to, left)) = self.edges.get(*edge) else { continue };
                if *left > 0 && level(&levels, *to).is_none() {
                    queue.push_back((*to, distance + 1));
                }
            }
        }
        levels
    }

    /// Has as much flow as can on ways that lead one level further with each edge.
    fn fill(&mut self, levels: &[Option<usize>]) {
        // How many of the edges that leave a vertex lead nowhere any more.
        let mut spent = vec![0; self.leaving.len()];
        let (mut way, mut at) = (vec![], SOURCE);
        loop {
            if at == SINK {
                way.drain(..).for_each(|edge| self.flow(edge));
                at = SOURCE;
            }
            let Some(tried) = spent.get_mut(at) else { return };
            let edge = self.leaving.get(at).and_then(|leaving| leaving.get(*tried)).copied();
            let next = edge.and_then(|edge| Some((edge, *self.edges.get(edge)?)));
            match next {
                Some((edge, (to, left)))
                    if left > 0 && level(levels, to) == level(levels, at).map(|at| at + 1) =>
                {
                    way.push(edge);
                    at = to;
                }
                Some(_) => *tried += 1,
                None => {
                    let Some(edge) = way.pop() else { return };
                    at = self.edges.get(edge ^ 1).map_or(SOURCE, |(from, _)| *from);
                    spent.iter_mut().skip(at).take(1).for_each(|tried| *tried += 1);
                }
            }
        }
    }

    /// Has one unit more flow through an edge: what a path leads through of values.
    fn flow(&mut self, edge: usize) {
        for (place, change) in [(edge, -1), (edge ^ 1, 1)] {
            if let Some((_, left)) = self.edges.get_mut(place).filter(|(_, left)| *left != u32::MAX)
            {
                *left = left.saturating_add_signed(change);
            }
        }
    }

    fn class(&mut self, class: usize) -> usize {
        if let Some(vertex) = self.vertices.get(&class) {
            return *vertex;
        }
        let vertex = self.vertex();
        self.vertices.insert(class, vertex);
        vertex
    }

    fn vertex(&mut self) -> usize {
        self.leaving.push(vec![]);
        self.leaving.len() - 1
    }

    fn edge(&mut self, from: usize, to: usize, capacity: u32) {
        for (from, to, capacity) in [(from, to, capacity), (to, from, 0)] {
            if let Some(leaving) = self.leaving.get_mut(from) {
                leaving.push(self.edges.len());
            }
            self.edges.push((to, capacity));
        }
    }
}

fn level(levels: &[Option<usize>], vertex: usize) -> Option<usize> {
    levels.get(vertex).copied().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_counts_once_and_as_much_as_can_be_is_converted() {
        // 0 stays, 9 is converted; 1 is taken by both 2 and 3, which 0 takes: one cast, before 1.
        let mut network = Network::default();
        network.stays(0);
        network.converts(9);
        for value in [&[9, 1][..], &[1, 2, 3], &[2, 0], &[3, 0], &[9, 4], &[4, 5]] {
            network.value(value);
        }
        assert_eq!(network.cut(), HashSet::from([0, 2, 3]));
        // Which of two chains is cut is left to the last value that one cast does for.
        let mut network = Network::default();
        network.stays(0);
        network.converts(9);
        for value in [&[0, 1][..], &[1, 2], &[2, 9], &[1, 9]] {
            network.value(value);
        }
        assert_eq!(network.cut(), HashSet::from([0]));
    }

    /// Two at a time of some hundred chains, each of some hundred values: as many paths to augment,
    /// each as long.
    #[test]
    fn what_is_deep_is_cut_in_no_time() {
        const SIDE: usize = 300;
        let mut network = Network::default();
        network.stays(0);
        network.converts(1);
        let class = |chain, link| 2 + chain * SIDE + link;
        for chain in 0..SIDE {
            network.value(&[0, class(chain, 0)]);
            for link in 1..SIDE {
                network.value(&[class(chain, link - 1), class(chain, link)]);
            }
            network.value(&[class(chain, SIDE - 1), 1]);
        }
        assert_eq!(network.cut(), HashSet::from([0]));
    }
}
