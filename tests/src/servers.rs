//! Servers with threads, and loads for them that make the same replies in every run.

use crate::bugnet::{Job, same_bytes, source_tree};
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

/// A server that listens at the socket `socket` in its folder, and is ended by SIGTERM.
#[derive(Clone, Copy, Debug)]
pub struct Server {
    /// Name of the test.
    pub name: &'static str,
    /// Debian package that has it.
    pub package: &'static str,
    /// Program and arguments.
    pub command: &'static [&'static str],
    /// Writes its configuration into its folder.
    pub prepare: fn(&Path) -> Result<()>,
    /// What a client asks and gets; several run at the same time, each with its number and the number of rounds.
    pub client: fn(&mut Connection, u32, u32) -> Result<()>,
}

/// All servers.
pub const SERVERS: &[Server] = &[
    Server {
        name: "redis",
        package: "redis-server",
        command: &[
            "/usr/bin/redis-server",
            "--port",
            "0",
            "--unixsocket",
            "socket",
            "--save",
            "",
            "--io-threads",
            "3",
            "--io-threads-do-reads",
            "yes",
        ],
        prepare: |_| Ok(()),
        client: redis,
    },
    Server {
        name: "memcached",
        package: "memcached",
        command: &["/usr/bin/memcached", "-u", "root", "-s", "socket", "-t", "3"],
        prepare: |_| Ok(()),
        client: memcached,
    },
    Server {
        name: "nginx",
        package: "nginx-light",
        command: &["/usr/sbin/nginx", "-p", ".", "-c", "nginx.conf"],
        prepare: |folder| {
            let configuration = source_tree().join("tests/programs/parallel/nginx.conf");
            fs::copy(&configuration, folder.join("nginx.conf")).context("copying nginx.conf")?;
            fs::write(folder.join("page"), page()).context("writing a page")
        },
        client: nginx,
    },
];

impl Server {
    /// The job that runs it in `folder`.
    ///
    /// # Errors
    /// Its package is not installed, or its configuration cannot be written.
    pub fn job(&self, folder: &Path) -> Result<Job> {
        let Self { name, package, command, .. } = self;
        ensure!(Path::new(command[0]).is_file(), "{name} needs a Debian package: apt-get install -y {package}");
        (self.prepare)(folder)?;
        Ok(Job::new(folder, command.iter().copied()))
    }

    /// Runs `clients` clients at the same time against the server in `folder`, which `server` is or starts.
    ///
    /// # Errors
    /// The server ends or is not there after `patience`, or a client gets another reply than it should.
    pub fn load(&self, folder: &Path, server: &mut Child, clients: u32, rounds: u32, patience: Duration) -> Result<()> {
        let socket = folder.join("socket");
        let end = Instant::now() + patience;
        while UnixStream::connect(&socket).is_err() {
            if let Some(status) = server.try_wait()? {
                bail!("{} ended: {status}", self.name);
            }
            ensure!(Instant::now() < end, "{} does not listen after {} s", self.name, patience.as_secs());
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::scope(|scope| {
            let run = |number| {
                let mut connection = Connection::new(&socket, patience)?;
                (self.client)(&mut connection, number, rounds).with_context(|| format!("client {number}"))
            };
            let clients: Vec<_> = (0..clients).map(|number| scope.spawn(move || run(number))).collect();
            clients.into_iter().try_for_each(|client| match client.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            })
        })
    }
}

/// A client's connection.
pub struct Connection(BufReader<UnixStream>);

impl Connection {
    fn new(socket: &Path, patience: Duration) -> Result<Self> {
        let stream = UnixStream::connect(socket).context("connecting")?;
        stream.set_read_timeout(Some(patience))?;
        Ok(Self(BufReader::new(stream)))
    }

    /// Sends a request, and compares the reply with what it must be.
    fn expect(&mut self, request: &str, reply: &[u8]) -> Result<()> {
        self.0.get_mut().write_all(request.as_bytes()).context("sending")?;
        let mut got = vec![0; reply.len()];
        self.0.read_exact(&mut got).with_context(|| format!("receiving the reply to {request:?}"))?;
        same_bytes(&format!("reply to {request:?}"), reply, &got)
    }
}

fn redis(connection: &mut Connection, number: u32, rounds: u32) -> Result<()> {
    for round in 1..=rounds {
        let value = "v".repeat((round * 7 % 200) as usize);
        connection.expect(&format!("SET k{number}:{round} \"{value}\"\r\n"), b"+OK\r\n")?;
        let bulk = format!("${}\r\n{value}\r\n", value.len());
        connection.expect(&format!("GET k{number}:{round}\r\n"), bulk.as_bytes())?;
        connection.expect(&format!("INCR count{number}\r\n"), format!(":{round}\r\n").as_bytes())?;
        connection.expect(&format!("LPUSH list{number} {round}\r\n"), format!(":{round}\r\n").as_bytes())?;
    }
    Ok(())
}

fn memcached(connection: &mut Connection, number: u32, rounds: u32) -> Result<()> {
    connection.expect(&format!("set count{number} 0 0 1\r\n0\r\n"), b"STORED\r\n")?;
    for round in 1..=rounds {
        let value = "v".repeat((round * 7 % 200) as usize);
        let len = value.len();
        connection.expect(&format!("set k{number}:{round} 0 0 {len}\r\n{value}\r\n"), b"STORED\r\n")?;
        let reply = format!("VALUE k{number}:{round} 0 {len}\r\n{value}\r\nEND\r\n");
        connection.expect(&format!("get k{number}:{round}\r\n"), reply.as_bytes())?;
        connection.expect(&format!("incr count{number} 1\r\n"), format!("{round}\r\n").as_bytes())?;
    }
    Ok(())
}

/// What nginx serves.
fn page() -> Vec<u8> {
    (0..100_000u32).map(|i| (i % 251) as u8).collect()
}

fn nginx(connection: &mut Connection, _: u32, rounds: u32) -> Result<()> {
    let page = page();
    for _ in 0..rounds {
        connection.expect("GET /page HTTP/1.1\r\nHost: localhost\r\n\r\n", b"HTTP/1.1 200 OK\r\n")?;
        let mut header = String::new();
        while header != "\r\n" {
            header.clear();
            ensure!(connection.0.read_line(&mut header)? > 0, "nginx closed the connection");
        }
        connection.expect("", &page)?;
    }
    Ok(())
}
