//! Mapped files and the calls that change them.
//!
//! A mapping shows the present content of its file, except where a private mapping's page was
//! written by its program. So a call that changes a file changes the memory of all processes
//! that map it. A file is *live* while at least one process maps it: it has one number and is
//! kept open. A call that changes a live file is performed while its task has the turn, and
//! all processes that map the file belong to that one scheduler. The change is logged right
//! behind the call.
//!
//! No unstopped call changes a live file. The stub writes only to descriptors that are marked
//! as not live. When a file becomes live, the marks of its descriptors are cleared while no
//! owner of them runs. The stub opens existing files with O_TRUNC only while nothing is mapped
//! and one process exists.
//!
//! System files are never live: nobody changes them in place.

pub(super) mod address_space;
pub(super) mod live_files;
