//! Values that the users of one session share, by key.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

/// A map with one value per key. A value lives as long as it is used outside of the map.
#[derive(Debug)]
pub(crate) struct WeakMap<K, T> {
    used: Mutex<HashMap<K, Weak<T>>>,
}

impl<K, T> Default for WeakMap<K, T> {
    fn default() -> Self {
        Self { used: Mutex::default() }
    }
}

impl<K: Eq + Hash, T> WeakMap<K, T> {
    /// Returns the value of `key`. Creates it if none is in use.
    pub(crate) fn at(&self, key: K, new: impl FnOnce() -> T) -> Arc<T> {
        let mut used = self.used.lock();
        if let Some(value) = used.get(&key).and_then(Weak::upgrade) {
            return value;
        }
        // A long session may use many keys. Before the table grows, the keys without a used value are removed.
        if used.len() == used.capacity() {
            used.retain(|_, value| value.strong_count() > 0);
        }
        let value = Arc::new(new());
        used.insert(key, Arc::downgrade(&value));
        value
    }

    /// Returns all values in use.
    pub(crate) fn used(&self) -> Vec<Arc<T>> {
        let used = self.used.lock();
        used.values().filter_map(Weak::upgrade).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn concurrent_users_of_a_key_share_its_value() {
        let registry = WeakMap::<&str, Mutex<u32>>::default();
        let one = registry.at("/a", Mutex::default);
        *one.lock() += 1;
        assert_eq!(*registry.at("/a", Mutex::default).lock(), 1);
        assert_eq!(*registry.at("/b", Mutex::default).lock(), 0);
        drop(one);
        assert_eq!(*registry.at("/a", Mutex::default).lock(), 0, "nobody used it any more");
    }

    #[test]
    fn keys_that_nobody_uses_are_forgotten() {
        let registry = WeakMap::<String, u32>::default();
        let used = registry.at("/used".to_owned(), u32::default);
        for i in 0..10_000 {
            registry.at(format!("/{i}"), u32::default);
        }
        assert!(registry.used.lock().len() < 64);
        assert_eq!(registry.used().len(), 1);
        assert!(Arc::ptr_eq(&used, &registry.at("/used".to_owned(), u32::default)));
    }
}
