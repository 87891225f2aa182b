//! Files in the memory of programs, and who changes them.
//!
//! A mapping shows what its file has *now*; one that is private, where its program has not
//! written to the page itself. So whoever changes a file changes the memory of all that have
//! mapped it. As long as somebody has, a file is *live*: it has one number, is kept open, and
//! each call that changes it is performed while its task has the turn of the one group that
//! all who have mapped it belong to by then; what has changed is logged right behind it.
//!
//! Of calls that do not stop, none changes a live file: the stub writes to descriptors only
//! that are known not to be of one. When a file becomes live, that is forgotten of all
//! descriptors that it has, while nobody who has one of them runs. It opens files that are
//! there with O_TRUNC only while nobody has anything mapped, and there is one process.
//!
//! Files of the system are none of these: nobody changes them in place.

pub(super) mod address_space;
pub(super) mod live_files;
