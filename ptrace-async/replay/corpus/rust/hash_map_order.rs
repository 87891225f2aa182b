// The order of a hash map, which differs from run to run.
use std::collections::HashMap;

fn main() {
    let map: HashMap<String, usize> = (0..100).map(|i| (format!("key {i}"), i)).collect();
    for (key, value) in &map {
        println!("{key}: {value}");
    }
}
