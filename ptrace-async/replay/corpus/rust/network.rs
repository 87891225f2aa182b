// A server and its clients, in threads of one program.
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

fn main() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    println!("{address}");
    let clients: Vec<_> = (0..4)
        .map(|me| {
            thread::spawn(move || {
                let mut stream = TcpStream::connect(address).unwrap();
                write!(stream, "client {me}").unwrap();
                stream.shutdown(std::net::Shutdown::Write).unwrap();
                let mut answer = String::new();
                stream.read_to_string(&mut answer).unwrap();
                answer
            })
        })
        .collect();
    for stream in listener.incoming().take(4) {
        let mut stream = stream.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        println!("{text} from {}", stream.peer_addr().unwrap());
        write!(stream, "hello, {text}").unwrap();
    }
    for client in clients {
        println!("{}", client.join().unwrap());
    }
}
