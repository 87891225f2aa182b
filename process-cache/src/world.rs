//! Asking the world.
