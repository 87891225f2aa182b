//! The macro and the names that the groups of the table write their rows with.

/// Writes one row as `sys!(0 read(fd: Fd, buf: Out(..), count: Size) -> Count)`;
/// the other columns follow as method calls.
macro_rules! sys {
    ($number:literal $name:ident ($($arg:ident : $ty:expr),* $(,)?) -> $returns:ident) => {
        $crate::syscall::model::Spec::new(
            $number,
            stringify!($name),
            &[$($crate::syscall::model::Arg { name: stringify!($arg), ty: $ty }),*],
            $crate::syscall::model::Return::$returns,
        )
    };
}
pub(super) use sys;

pub(super) use crate::syscall::failure::Failure;
pub(super) use crate::syscall::flags;
pub(super) use crate::syscall::layout::Layout::*;
pub(super) use crate::syscall::model::Deterministic as World;
pub(super) use crate::syscall::model::Extent::*;
pub(super) use crate::syscall::model::Later;
pub(super) use crate::syscall::model::Length::*;
pub(super) use crate::syscall::model::Object::*;
pub(super) use crate::syscall::model::Rule;
pub(super) use crate::syscall::model::Spec;
pub(super) use crate::syscall::model::Type::*;
pub(super) use crate::syscall::model::When;
