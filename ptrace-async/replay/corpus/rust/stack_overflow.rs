// A thread overflows its stack: the handler says so, and the program aborts.
// status: signal 6
fn down(depth: u64) -> u64 {
    let room = [depth; 100];
    if depth == u64::MAX {
        return 0;
    }
    down(std::hint::black_box(depth + 1)) + std::hint::black_box(room)[3]
}

fn main() {
    println!("{}", std::process::id());
    let _ = std::thread::spawn(|| println!("{}", down(0))).join();
}
