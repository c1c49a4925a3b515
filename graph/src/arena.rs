//! Arenas, the handles of what is in them, and tables beside them.

use std::fmt;
use std::marker::PhantomData;

/// A place in an arena.
pub(crate) trait Handle: Copy {
    fn new(index: usize) -> Self;
    fn index(self) -> usize;
}

macro_rules! handle {
    ($(#[$doc:meta])* $name:ident, $letter:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(u32);

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($letter, "{}"), self.0)
            }
        }

        impl Handle for $name {
            fn new(index: usize) -> $name {
                // A node takes a hundred bytes, so memory ends before the numbers do.
                $name(u32::try_from(index).unwrap_or(u32::MAX))
            }

            fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

handle! {
    /// A node of a [`Graph`](crate::Graph).
    NodeId, "n"
}
handle! {
    /// A value of a [`Graph`](crate::Graph).
    ValueId, "v"
}
handle! {
    /// A body of a [`Graph`](crate::Graph).
    BodyId, "b"
}

/// What is made stays at its place; handles are given by the arena alone, so every handle has
/// something.
#[derive(Debug, Clone)]
pub(crate) struct Arena<K, T> {
    items: Vec<T>,
    key: PhantomData<K>,
}

impl<K, T> Default for Arena<K, T> {
    fn default() -> Arena<K, T> {
        Arena { items: vec![], key: PhantomData }
    }
}

impl<K: Handle, T> Arena<K, T> {
    /// Makes room for so many more, and for no others if there was none before.
    pub(crate) fn reserve(&mut self, more: usize) {
        self.items.reserve(more);
    }

    pub(crate) fn add(&mut self, item: T) -> K {
        self.items.push(item);
        K::new(self.items.len() - 1)
    }

    pub(crate) fn get(&self, id: K) -> &T {
        &self.items[id.index()]
    }

    pub(crate) fn get_mut(&mut self, id: K) -> &mut T {
        &mut self.items[id.index()]
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }
}

/// What an analysis knows of some nodes, values or bodies, by their handles.
#[derive(Debug, Clone)]
pub struct Table<K, T> {
    items: Vec<Option<T>>,
    key: PhantomData<K>,
}

impl<K, T> Default for Table<K, T> {
    fn default() -> Table<K, T> {
        Table { items: vec![], key: PhantomData }
    }
}

#[expect(private_bounds, reason = "the three handles are all there are")]
impl<K: Handle, T> Table<K, T> {
    /// What is known of one.
    pub fn get(&self, id: K) -> Option<&T> {
        self.items.get(id.index()).and_then(Option::as_ref)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, id: K) -> Option<&mut T> {
        self.items.get_mut(id.index()).and_then(Option::as_mut)
    }

    /// Keeps what is known of one, and returns what was known before.
    pub fn insert(&mut self, id: K, item: T) -> Option<T> {
        let index = id.index();
        if self.items.len() <= index {
            self.items.resize_with(index + 1, || None);
        }
        self.items[index].replace(item)
    }

    /// Forgets what is known of one, and returns it.
    pub fn remove(&mut self, id: K) -> Option<T> {
        self.items.get_mut(id.index()).and_then(Option::take)
    }

    /// Whether anything is known of one.
    pub fn contains(&self, id: K) -> bool {
        self.get(id).is_some()
    }

    /// All of which something is known, in the order of their handles.
    pub fn iter(&self) -> impl Iterator<Item = (K, &T)> {
        let items = self.items.iter().enumerate();
        items.filter_map(|(index, item)| Some((K::new(index), item.as_ref()?)))
    }
}
