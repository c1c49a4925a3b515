//! A minimum cut of classes: which of them stay with those that must, so that the fewest values
//! need a cast (Ford and Fulkerson, by the shortest augmenting paths).
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
        loop {
            let reached = self.reached();
            let Some(through) = reached.get(&SINK) else {
                let classes = self.vertices.iter();
                let staying = classes.filter(|(_, vertex)| reached.contains_key(*vertex));
                return staying.map(|(class, _)| *class).collect();
            };
            let mut next = *through;
            while let Some(edge) = next {
                self.flow(edge);
                let from = self.edges.get(edge ^ 1).map_or(SOURCE, |(from, _)| *from);
                next = reached.get(&from).copied().flatten();
            }
        }
    }

    /// The vertices that more can flow to, up to the sink if it is one, and through which edge.
    fn reached(&self) -> HashMap<usize, Option<usize>> {
        let mut reached = HashMap::from([(SOURCE, None)]);
        let mut queue = VecDeque::from([SOURCE]);
        while let Some(from) = queue.pop_front() {
            for edge in self.leaving.get(from).into_iter().flatten() {
                let Some((to, left)) = self.edges.get(*edge) else { continue };
                if *left > 0 && !reached.contains_key(to) {
                    reached.insert(*to, Some(*edge));
                    queue.push_back(*to);
                }
                if *to == SINK && *left > 0 {
                    return reached;
                }
            }
        }
        reached
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
}
