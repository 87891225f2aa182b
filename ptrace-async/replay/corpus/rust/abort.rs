// A program that aborts.
// status: signal 6
fn main() {
    println!("{}", std::process::id());
    std::process::abort();
}
