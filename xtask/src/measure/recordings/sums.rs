//! Work of several threads, whose order shows.

use std::sync::Mutex;

use rayon::prelude::*;

fn main() {
    let order = Mutex::new(Vec::new());
    let sum: u64 = (0..400_u64)
        .into_par_iter()
        .map(|n| {
            let part = (0..n * 100).fold(0_u64, |sum, m| sum.wrapping_mul(31) ^ m);
            order.lock().unwrap().push(n);
            part & 0xff
        })
        .sum();
    println!("{sum} {:?}", order.into_inner().unwrap());
}
