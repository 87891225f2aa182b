//! A small browser engine, built of threads and processes as Servo is.
//!
//! ```text
//!  embedder ──> constellation ──> script ──> layout (rayon) ──> compositor ──> image
//!  (browser)      │      ^       │  │  │
//!                 │      └─ipc───┘  │  └─> workers, timers, storage
//!                 └─ frames         └─ipc─> resources ──> a thread for each fetch
//!                                                            └─> network (tokio)
//! ```
//!
//! | module | thread |
//! |---|---|
//! | [`browser`] | whoever loads pages: the tests |
//! | `constellation` | knows which page is in which frame, and who is done |
//! | `script` | one for each page: its tree, its script's [steps](script::steps), what comes to it |
//! | `layout` | one for each page, with the threads of rayon |
//! | `compositor` | puts the pages' boxes into one image |
//! | `resource` | gives each fetch a thread of its own, which reads a file or waits for the network |
//! | `network` | all connections, on tokio's runtime of one thread |
//! | `storage` | what pages keep, by key |
//!
//! What a page needs of others goes through ipc-channel, and by its router into channels of
//! crossbeam; so a page can be in a [process of its own](content), too. HTML, CSS and scripts
//! are small languages of this crate, documented where they are read.
//!
//! It is here for its tests (`tests/wpt`): some of them take for granted what the scheduler,
//! a clock or a file system decides, as tests of real programs do.

pub mod address;
pub mod browser;
pub mod content;
pub mod css;
pub mod html;
pub mod image;
pub mod script;
pub mod server;

mod compositor;
mod constellation;
mod layout;
mod messages;
mod network;
mod resource;
mod storage;
