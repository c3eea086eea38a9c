//! A map that most often has one entry.

use std::collections::BTreeMap;
use std::ops::Index;

/// A map that keeps a single entry without a tree: the smallest node of a [`BTreeMap`] has room for eleven, and most sessions
/// have one contender for a lock. Equal maps are kept alike.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum SmallMap<K, V> {
    #[default]
    Empty,
    One(K, V),
    /// At least two entries. Boxed, so that one entry takes no more room than it needs.
    #[expect(clippy::box_collection, reason = "three words would be more than most entries need")]
    Many(Box<BTreeMap<K, V>>),
}

impl<K: Ord, V> SmallMap<K, V> {
    pub(super) fn get(&self, key: &K) -> Option<&V> {
        match self {
            Self::One(one, value) if one == key => Some(value),
            Self::Many(map) => map.get(key),
            _ => None,
        }
    }

    pub(super) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        match self {
            Self::One(one, value) if one == key => Some(value),
            Self::Many(map) => map.get_mut(key),
            _ => None,
        }
    }

    /// Returns the value that the key had before.
    pub(super) fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self {
            Self::One(one, before) if *one == key => return Some(std::mem::replace(before, value)),
            Self::Many(map) => return map.insert(key, value),
            _ => {}
        }
        *self = match std::mem::take(self) {
            Self::One(other, of_other) => Self::Many(Box::new(BTreeMap::from([(other, of_other), (key, value)]))),
            _ => Self::One(key, value),
        };
        None
    }

    pub(super) fn remove(&mut self, key: &K) -> Option<V> {
        match self {
            Self::One(one, _) if one == key => match std::mem::take(self) {
                Self::One(_, value) => Some(value),
                _ => None,
            },
            Self::Many(map) => {
                let removed = map.remove(key);
                if map.len() == 1
                    && let Some((last, value)) = map.pop_first()
                {
                    *self = Self::One(last, value);
                }
                removed
            }
            _ => None,
        }
    }

    pub(super) fn contains_key(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::Empty)
    }
}

impl<K: Ord + Copy, V: Default> SmallMap<K, V> {
    /// The value of a key, which is entered if it is missing.
    pub(super) fn or_default(&mut self, key: K) -> &mut V {
        if !self.contains_key(&key) {
            self.insert(key, V::default());
        }
        self.get_mut(&key).expect("BUG: a key that was inserted is missing")
    }
}

impl<K: Ord, V> Index<&K> for SmallMap<K, V> {
    type Output = V;

    fn index(&self, key: &K) -> &V {
        self.get(key).expect("BUG: there is no entry for this key")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: u32 = 3;
    const STEPS: u32 = 6;

    #[test]
    fn it_holds_what_a_tree_holds_after_all_short_sequences_of_steps() {
        for sequence in 0..(2 * KEYS).pow(STEPS) {
            let (mut small, mut tree) = (SmallMap::default(), BTreeMap::new());
            for step in 0..STEPS {
                let choice = sequence / (2 * KEYS).pow(step) % (2 * KEYS);
                let (key, value) = (choice % KEYS, step);
                if choice < KEYS {
                    assert_eq!(small.insert(key, value), tree.insert(key, value));
                } else {
                    assert_eq!(small.remove(&key), tree.remove(&key));
                }
                (0..KEYS).for_each(|key| assert_eq!(small.get(&key), tree.get(&key)));
                assert_eq!(small.is_empty(), tree.is_empty());
            }
            let mut same = SmallMap::default();
            for (key, value) in tree {
                same.insert(key, value);
            }
            assert_eq!(small, same, "equal maps are kept alike");
        }
    }
}
