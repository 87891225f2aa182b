//! Values that several tasks share, with explicit reference counts.
//!
//! A descriptor table belongs to all threads of a process and to other tasks that were
//! cloned with `CLONE_FILES`. An arena with counts works like `Rc<RefCell<_>>`, but queries
//! can return plain references.
//!
//! **Invariant:** a key from `insert`, `share` or `unshare` is valid until its owner
//! releases it. A released key is never looked up.

/// Names a value in an [`Arena`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key(usize);

#[derive(Debug)]
struct Counted<T> {
    value: T,
    users: usize,
}

/// Counted values.
#[derive(Debug)]
pub(super) struct Arena<T> {
    slots: Vec<Option<Counted<T>>>,
    free: Vec<usize>,
}

impl<T> Arena<T> {
    pub(super) fn new() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Stores a value with one user.
    pub(super) fn insert(&mut self, value: T) -> Key {
        let counted = Some(Counted { value, users: 1 });
        if let Some(index) = self.free.pop() {
            self.slots[index] = counted;
            return Key(index);
        }
        self.slots.push(counted);
        Key(self.slots.len() - 1)
    }

    /// One more user of the same value.
    pub(super) fn share(&mut self, key: Key) -> Key {
        if let Some(counted) = self.slots.get_mut(key.0).and_then(Option::as_mut) {
            counted.users += 1;
        }
        key
    }

    /// One user less; the last one drops the value.
    pub(super) fn release(&mut self, key: Key) {
        let Some(slot) = self.slots.get_mut(key.0) else {
            return;
        };
        let Some(counted) = slot else { return };
        counted.users -= 1;
        if counted.users == 0 {
            *slot = None;
            self.free.push(key.0);
        }
    }

    /// Gives the user a value of its own: the same one if it has no other user, else a
    /// copy.
    pub(super) fn unshare(&mut self, key: Key) -> Key
    where
        T: Clone,
    {
        match self.slots.get_mut(key.0).and_then(Option::as_mut) {
            Some(counted) if counted.users > 1 => {
                counted.users -= 1;
                let copy = counted.value.clone();
                self.insert(copy)
            }
            _ => key,
        }
    }

    pub(super) fn get(&self, key: Key) -> Option<&T> {
        let slot = self.slots.get(key.0)?;
        slot.as_ref().map(|counted| &counted.value)
    }

    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let slot = self.slots.get_mut(key.0)?;
        slot.as_mut().map(|counted| &mut counted.value)
    }

    /// All values, in no particular order.
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        let slots = self.slots.iter_mut().flatten();
        slots.map(|counted| &mut counted.value)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.slots.iter().flatten().count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_release_drops_the_value_and_its_place_is_used_again() {
        let mut arena = Arena::new();
        let first = arena.insert("a");
        arena.share(first);
        arena.release(first);
        assert_eq!(arena.get(first), Some(&"a"));
        arena.release(first);
        assert_eq!(arena.get(first), None);
        assert_eq!(arena.insert("b"), first);
    }

    #[test]
    fn unshare_copies_only_what_others_use() {
        let mut arena = Arena::new();
        let key = arena.insert(vec![1]);
        assert_eq!(arena.unshare(key), key);
        arena.share(key);
        let own = arena.unshare(key);
        assert_ne!(own, key);
        arena.get_mut(own).unwrap().push(2);
        assert_eq!(arena.get(key), Some(&vec![1]));
        assert_eq!(arena.len(), 2);
    }
}
