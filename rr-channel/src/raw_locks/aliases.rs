//! The types that `lock_api` makes of the raw locks.

/// Defines them, where the raw locks and `lock_api` are in scope.
macro_rules! lock_aliases {
    () => {
        /// A mutual exclusion primitive.
        pub type Mutex<T> = lock_api::Mutex<RawMutex, T>;
        /// Holds a [`Mutex`] until it is dropped.
        pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawMutex, T>;
        /// A [`MutexGuard`] of a part of the guarded value.
        pub type MappedMutexGuard<'a, T> = lock_api::MappedMutexGuard<'a, RawMutex, T>;

        /// A mutual exclusion primitive that always lets the thread have it that waited longest.
        pub type FairMutex<T> = lock_api::Mutex<RawFairMutex, T>;
        /// Holds a [`FairMutex`] until it is dropped.
        pub type FairMutexGuard<'a, T> = lock_api::MutexGuard<'a, RawFairMutex, T>;
        /// A [`FairMutexGuard`] of a part of the guarded value.
        pub type MappedFairMutexGuard<'a, T> = lock_api::MappedMutexGuard<'a, RawFairMutex, T>;

        /// A mutual exclusion primitive that its owner can acquire again.
        pub type ReentrantMutex<T> = lock_api::ReentrantMutex<RawMutex, RawThreadId, T>;
        /// Holds a [`ReentrantMutex`] until it is dropped.
        pub type ReentrantMutexGuard<'a, T> =
            lock_api::ReentrantMutexGuard<'a, RawMutex, RawThreadId, T>;
        /// A [`ReentrantMutexGuard`] of a part of the guarded value.
        pub type MappedReentrantMutexGuard<'a, T> =
            lock_api::MappedReentrantMutexGuard<'a, RawMutex, RawThreadId, T>;

        /// A lock for many readers or one writer.
        pub type RwLock<T> = lock_api::RwLock<RawRwLock, T>;
        /// Holds an [`RwLock`] for reading until it is dropped.
        pub type RwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, RawRwLock, T>;
        /// Holds an [`RwLock`] for writing until it is dropped.
        pub type RwLockWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, RawRwLock, T>;
        /// Holds an [`RwLock`] for reading, and perhaps writing later, until it is dropped.
        pub type RwLockUpgradableReadGuard<'a, T> =
            lock_api::RwLockUpgradableReadGuard<'a, RawRwLock, T>;
        /// An [`RwLockReadGuard`] of a part of the guarded value.
        pub type MappedRwLockReadGuard<'a, T> = lock_api::MappedRwLockReadGuard<'a, RawRwLock, T>;
        /// An [`RwLockWriteGuard`] of a part of the guarded value.
        pub type MappedRwLockWriteGuard<'a, T> = lock_api::MappedRwLockWriteGuard<'a, RawRwLock, T>;
    };
}

pub(crate) use lock_aliases;
