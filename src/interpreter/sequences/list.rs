//! Lists that share what they have in common. A model makes a sequence of each before it, with one
//! tensor more: as vectors, these would be copied each time.

use std::sync::Arc;

/// How much a part has at most: to insert one copies a part, and where the parts are.
const PART: usize = 256;

/// Values in their order, in parts none of which is empty.
#[derive(Debug, Clone)]
pub(in crate::interpreter) struct List<T> {
    parts: Arc<Vec<Arc<Vec<T>>>>,
    length: usize,
}

impl<T> Default for List<T> {
    fn default() -> List<T> {
        List { parts: Arc::default(), length: 0 }
    }
}

impl<T: Clone> List<T> {
    pub(in crate::interpreter) fn len(&self) -> usize {
        self.length
    }

    pub(in crate::interpreter) fn is_empty(&self) -> bool {
        self.length == 0
    }

    pub(in crate::interpreter) fn iter(&self) -> impl Iterator<Item = &T> {
        self.parts.iter().flat_map(|part| part.iter())
    }

    pub(in crate::interpreter) fn get(&self, index: usize) -> Option<&T> {
        let (part, place) = self.place_of(index);
        self.parts.get(part)?.get(place)
    }

    /// Puts one before that at an index, or behind the last.
    pub(in crate::interpreter) fn insert(&mut self, index: usize, one: T) {
        let (mut at, mut place) = self.place_of(index);
        let parts = Arc::make_mut(&mut self.parts);
        if at == parts.len() {
            // Behind the last part is the end of it, if it has room.
            match parts.last().filter(|last| last.len() < PART) {
                Some(last) => (at, place) = (at - 1, last.len()),
                None => parts.push(Arc::default()),
            }
        }
        let Some(part) = parts.get_mut(at) else { return };
        let part = Arc::make_mut(part);
        part.insert(place.min(part.len()), one);
        if part.len() > PART {
            let rest = part.split_off(PART / 2);
            parts.insert(at + 1, Arc::new(rest));
        }
        self.length += 1;
    }

    /// Takes out what is at an index, if there is anything.
    pub(in crate::interpreter) fn remove(&mut self, index: usize) {
        if index >= self.length {
            return;
        }
        let (at, place) = self.place_of(index);
        let parts = Arc::make_mut(&mut self.parts);
        let Some(part) = parts.get_mut(at) else { return };
        if part.len() > 1 {
            Arc::make_mut(part).remove(place);
        } else {
            parts.remove(at);
        }
        self.length -= 1;
    }

    /// The part that an index is in, and where in it.
    fn place_of(&self, index: usize) -> (usize, usize) {
        let mut before = index;
        for (at, part) in self.parts.iter().enumerate() {
            match before.checked_sub(part.len()) {
                Some(left) => before = left,
                None => return (at, before),
            }
        }
        (self.parts.len(), before)
    }
}

impl<T: Clone> FromIterator<T> for List<T> {
    fn from_iter<I: IntoIterator<Item = T>>(all: I) -> List<T> {
        let mut list = List::default();
        for one in all {
            list.insert(list.length, one);
        }
        list
    }
}

impl<T: Clone> IntoIterator for List<T> {
    type Item = T;
    type IntoIter = std::iter::Flatten<std::vec::IntoIter<Vec<T>>>;

    /// What is in it, and no copies where no other list has it.
    fn into_iter(self) -> Self::IntoIter {
        let parts = Arc::unwrap_or_clone(self.parts).into_iter();
        parts.map(Arc::unwrap_or_clone).collect::<Vec<_>>().into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A list and a vector to which the same is done, with what there was on the way.
    #[test]
    fn a_list_is_a_vector() {
        let (mut list, mut expected) = (List::default(), vec![]);
        let mut before = vec![];
        for step in 0usize..4_000 {
            let random = step * 7919 % 1009;
            if step % 5 == 4 || (2_000..3_000).contains(&step) {
                let index = random % list.len().max(1);
                list.remove(index);
                if index < expected.len() {
                    expected.remove(index);
                }
            } else {
                let is_last = step % 2 == 0;
                let index = if is_last { list.len() } else { random % (list.len() + 1) };
                list.insert(index, step);
                expected.insert(index, step);
            }
            assert_eq!((list.len(), list.is_empty()), (expected.len(), expected.is_empty()));
            if step % 100 == 0 {
                before.push((list.clone(), expected.clone()));
            }
        }
        before.push((list, expected));
        for (list, expected) in before {
            assert!(list.iter().eq(&expected));
            assert!((0..=list.len()).all(|index| list.get(index) == expected.get(index)));
            assert!(list.clone().into_iter().collect::<List<_>>().iter().eq(&expected));
            assert!(list.into_iter().eq(expected));
        }
    }
}
