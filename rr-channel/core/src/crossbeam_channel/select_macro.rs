//! The `select!` and `select_biased!` macros, over [`Select`](super::Select).
//!
//! Upstream's macro cannot be used as it is: its `$crate` names upstream's own
//! types. The syntax is the same. Heads (`recv(r) -> x =>`) and bodies are parsed
//! one at a time into a list of cases, from which nested matches are built that
//! keep each operand alive until its case is done.

/// Crate internals; no stable interface. Has the name of upstream's, which other
/// macros are known to use, and does as `select!` if called as upstream's is.
#[doc(hidden)]
#[macro_export]
macro_rules! crossbeam_channel_internal {
    // Heads. `[constructor] [cases] [default]` and the remaining tokens.
    (@head $new:tt $cases:tt $default:tt) => {
        $crate::crossbeam_channel_internal!(@bind $new $cases $default
            [(0 op0) (1 op1) (2 op2) (3 op3) (4 op4) (5 op5) (6 op6) (7 op7) (8 op8) (9 op9)
             (10 op10) (11 op11) (12 op12) (13 op13) (14 op14) (15 op15) (16 op16) (17 op17)
             (18 op18) (19 op19) (20 op20) (21 op21) (22 op22) (23 op23) (24 op24) (25 op25)
             (26 op26) (27 op27) (28 op28) (29 op29) (30 op30) (31 op31)]
            [])
    };
    (@head $new:tt $cases:tt $default:tt
        recv($r:expr $(,)?) -> $res:pat => $($rest:tt)*
    ) => {
        $crate::crossbeam_channel_internal!(@body $new $cases $default [recv ($r) ($res)] $($rest)*)
    };
    (@head $new:tt $cases:tt $default:tt
        send($s:expr, $m:expr $(,)?) -> $res:pat => $($rest:tt)*
    ) => {
        $crate::crossbeam_channel_internal!(@body $new $cases $default [send ($s, $m) ($res)] $($rest)*)
    };
    (@head $new:tt $cases:tt [] default => $($rest:tt)*) => {
        $crate::crossbeam_channel_internal!(@body $new $cases [] [default ()] $($rest)*)
    };
    (@head $new:tt $cases:tt [] default() => $($rest:tt)*) => {
        $crate::crossbeam_channel_internal!(@body $new $cases [] [default ()] $($rest)*)
    };
    (@head $new:tt $cases:tt [] default($timeout:expr $(,)?) => $($rest:tt)*) => {
        $crate::crossbeam_channel_internal!(@body $new $cases [] [default ($timeout)] $($rest)*)
    };
    (@head $new:tt $cases:tt [$($default:tt)+] default $($rest:tt)*) => {
        compile_error!("there can be only one `default` case in a `select!` block")
    };
    (@head $new:tt $cases:tt $default:tt $($rest:tt)*) => {
        compile_error!(concat!(
            "expected `recv(receiver) -> pattern => body`, `send(sender, message) -> pattern => \
             body`, `default => body` or `default(timeout) => body`, found `",
            stringify!($($rest)*),
            "`",
        ))
    };

    // Bodies: a block, with or without a comma, or an expression up to one.
    (@body $new:tt $cases:tt $default:tt $head:tt { $($body:tt)* }, $($rest:tt)*) => {
        $crate::crossbeam_channel_internal!(@case $new $cases $default $head ({ $($body)* }) $($rest)*)
    };
    (@body $new:tt $cases:tt $default:tt $head:tt $body:expr, $($rest:tt)*) => {
        $crate::crossbeam_channel_internal!(@case $new $cases $default $head ($body) $($rest)*)
    };
    (@body $new:tt $cases:tt $default:tt $head:tt { $($body:tt)* } $($rest:tt)*) => {
        $crate::crossbeam_channel_internal!(@case $new $cases $default $head ({ $($body)* }) $($rest)*)
    };
    (@body $new:tt $cases:tt $default:tt $head:tt $body:expr) => {
        $crate::crossbeam_channel_internal!(@case $new $cases $default $head ($body))
    };
    (@body $new:tt $cases:tt $default:tt $head:tt $($rest:tt)*) => {
        compile_error!(concat!(
            "expected a block, or an expression and a comma, found `",
            stringify!($($rest)*),
            "`",
        ))
    };

    // A finished case joins the others.
    (@case $new:tt $cases:tt [] [default $timeout:tt] $body:tt $($rest:tt)*) => {
        $crate::crossbeam_channel_internal!(@head $new $cases [$timeout $body] $($rest)*)
    };
    (@case $new:tt [$($cases:tt)*] $default:tt
        [$op:ident $args:tt $res:tt] $body:tt $($rest:tt)*
    ) => {
        $crate::crossbeam_channel_internal!(
            @head $new [$($cases)* ($op $args $res $body)] $default $($rest)*
        )
    };

    // Each operand gets a name, in a match that keeps temporaries alive.
    (@bind $new:tt [(recv ($r:expr) $res:tt $body:tt) $($cases:tt)*] $default:tt
        [($i:tt $name:ident) $($names:tt)*] [$($bound:tt)*]
    ) => {
        match $r {
            ref handle => {
                let $name: &$crate::crossbeam_channel::Receiver<_> = handle;
                $crate::crossbeam_channel_internal!(@bind $new [$($cases)*] $default [$($names)*]
                    [$($bound)* (recv $i $name () $res $body)])
            }
        }
    };
    (@bind $new:tt [(send ($s:expr, $m:expr) $res:tt $body:tt) $($cases:tt)*] $default:tt
        [($i:tt $name:ident) $($names:tt)*] [$($bound:tt)*]
    ) => {
        match $s {
            ref handle => {
                let $name: &$crate::crossbeam_channel::Sender<_> = handle;
                $crate::crossbeam_channel_internal!(@bind $new [$($cases)*] $default [$($names)*]
                    [$($bound)* (send $i $name ($m) $res $body)])
            }
        }
    };
    (@bind $new:tt [$($case:tt)+] $default:tt [] $bound:tt) => {
        compile_error!("too many operations in a `select!` block")
    };

    // All have: select, and run the case.
    (@bind [$new:ident] [] [] $names:tt [$(($op:ident $i:tt $name:ident $m:tt $res:tt $body:tt))*]) => {{
        let operation = {
            let mut select = $crate::crossbeam_channel::Select::$new();
            $(select.$op($name);)*
            select.select()
        };
        $crate::crossbeam_channel_internal!(@run operation [$(($op $i $name $m $res $body))*])
    }};
    (@bind [$new:ident] [] [($($timeout:expr)?) ($default:expr)] $names:tt
        [$(($op:ident $i:tt $name:ident $m:tt $res:tt $body:tt))*]
    ) => {{
        let attempt = {
            let mut select = $crate::crossbeam_channel::Select::$new();
            $(select.$op($name);)*
            $crate::crossbeam_channel_internal!(@attempt select $($timeout)?)
        };
        // It is moved as a whole before any body runs, which may move or change operands.
        if ::std::result::Result::is_ok(&attempt) {
            let operation = ::std::result::Result::unwrap(attempt);
            $crate::crossbeam_channel_internal!(@run operation [$(($op $i $name $m $res $body))*])
        } else {
            ::std::mem::drop(attempt);
            $default
        }
    }};
    (@attempt $select:ident) => { $select.try_select() };
    (@attempt $select:ident $timeout:expr) => { $select.select_timeout($timeout) };

    (@run $operation:ident
        [(recv $i:tt $name:ident () ($res:pat) ($body:expr)) $($cases:tt)*]
    ) => {
        if $operation.index() == $i {
            let result = $operation.recv($name);
            let $res = result;
            $body
        } else {
            $crate::crossbeam_channel_internal!(@run $operation [$($cases)*])
        }
    };
    (@run $operation:ident
        [(send $i:tt $name:ident ($m:expr) ($res:pat) ($body:expr)) $($cases:tt)*]
    ) => {
        if $operation.index() == $i {
            let result = $operation.send($name, $m);
            let $res = result;
            $body
        } else {
            $crate::crossbeam_channel_internal!(@run $operation [$($cases)*])
        }
    };
    (@run $operation:ident []) => {{
        let _ = $operation;
        ::std::unreachable!("the selected operation is one of those registered")
    }};

    (@$($tokens:tt)*) => { compile_error!("a bug in `select!`") };
    ($($tokens:tt)+) => {
        $crate::crossbeam_channel_internal!(@head [new] [] [] $($tokens)+)
    };
}

/// Waits until one of several channel operations can go ahead, and performs it; if
/// several can, one of them at random.
///
/// The syntax is that of
/// [upstream's macro](https://docs.rs/crossbeam-channel/0.5/crossbeam_channel/macro.select.html).
///
/// ```
/// use rr_channel::crossbeam_channel::{select, unbounded};
/// use std::time::Duration;
///
/// let (s1, r1) = unbounded();
/// let (s2, r2) = unbounded::<i32>();
/// s1.send(10).unwrap();
///
/// let sum = select! {
///     recv(r1) -> msg => msg.unwrap() + 1,
///     recv(r2) -> _ => unreachable!(),
///     default(Duration::from_secs(1)) => 0,
/// };
/// assert_eq!(sum, 11);
///
/// select! {
///     send(s2, 20) -> res => res.unwrap(),
/// }
/// assert_eq!(r2.try_recv(), Ok(20));
/// ```
#[macro_export]
macro_rules! select {
    () => { compile_error!("empty `select!` block") };
    ($($tokens:tt)+) => { $crate::crossbeam_channel_internal!(@head [new] [] [] $($tokens)+) };
}

/// Waits until one of several channel operations can go ahead, and performs it; if
/// several can, the first of them. See [`select!`](crate::select!).
#[cfg(feature = "upstream-0.5.14")]
#[macro_export]
macro_rules! select_biased {
    () => { compile_error!("empty `select!` block") };
    ($($tokens:tt)+) => { $crate::crossbeam_channel_internal!(@head [new_biased] [] [] $($tokens)+) };
}

#[cfg(test)]
mod tests {
    use crate::crossbeam_channel::{Receiver, unbounded};
    use std::time::Duration;

    /// Has a receiver, and is changed by what it receives.
    struct Sum(Receiver<u32>, u32);

    impl Sum {
        fn add(&mut self, number: u32) {
            self.1 += number;
        }

        /// Nothing follows the selections, as where they are a function's or a loop's last
        /// expression.
        fn all(&mut self) -> u32 {
            loop {
                select! {
                    recv(self.0) -> number => match number {
                        Ok(number) => self.add(number),
                        Err(_) => return self.1,
                    },
                    default => self.add(100),
                }
            }
        }

        fn next(&mut self) {
            select! {
                recv(self.0) -> number => self.add(number.unwrap_or(1000)),
                default(Duration::from_secs(600)) => self.add(100),
            }
        }

        fn last(mut self) -> u32 {
            select! {
                recv(self.0) -> number => { self.add(number.unwrap_or(1000)); self.1 }
                default => {
                    let Sum(receiver, sum) = self;
                    drop(receiver);
                    sum
                }
            }
        }
    }

    #[test]
    fn cases_may_change_what_the_receiver_lies_in() {
        let (sender, receiver) = unbounded();
        let mut sum = Sum(receiver, 0);
        for number in [1, 2, 4] {
            sender.send(number).unwrap();
        }
        sum.next();
        assert_eq!(sum.1, 1);
        drop(sender);
        assert_eq!(sum.all(), 7);
        assert_eq!(sum.last(), 1007);
    }
}
