//! The operating system below the cache: system calls, clocks and worker threads.

pub mod bounded;
pub mod clock;
pub mod defect;
pub mod fault;
pub mod jobs;
pub mod lock;
pub mod os;
pub mod place;
pub mod proc_files;
pub mod surroundings;
