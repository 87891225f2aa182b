//! `servo-harness`: see the library.

fn main() -> std::process::ExitCode {
    servo_harness::main()
}
