// Files, directories and their times.
use std::fs;

fn main() {
    fs::create_dir_all("a/b/c").unwrap();
    fs::write("a/b/file", format!("{:?}", std::time::SystemTime::now())).unwrap();
    fs::copy("a/b/file", "a/copy").unwrap();
    fs::rename("a/copy", "a/b/c/moved").unwrap();
    println!("{}", fs::read_to_string("a/b/c/moved").unwrap());
    println!("{:?}", fs::metadata("a/b/file").unwrap().modified().unwrap());
    for entry in fs::read_dir("a/b").unwrap() {
        println!("{:?}", entry.unwrap().path());
    }
    fs::remove_dir_all("a").unwrap();
}
