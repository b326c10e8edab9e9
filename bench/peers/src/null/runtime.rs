//! The floor with tokio.

use super::FRAME;
use std::io;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;

async fn conn(mut s: TcpStream) -> io::Result<()> {
    s.set_nodelay(true)?;
    let mut buf = vec![0u8; 16 * 1024];
    let mut have = 0;
    loop {
        let n = s.read(&mut buf[have..]).await?;
        if n == 0 {
            return Ok(());
        }
        have += n;
        let whole = have / FRAME * FRAME;
        if whole > 0 {
            s.write_all(&buf[..whole]).await?; // as many answers as there were whole frames
            buf.copy_within(whole..have, 0);
            have -= whole;
        }
    }
}

async fn accept(port: u16) -> io::Result<()> {
    let l = TcpListener::bind(("127.0.0.1", port)).await?;
    loop {
        let (s, _) = l.accept().await?;
        tokio::spawn(async move {
            let _ = conn(s).await;
        });
    }
}

/// workers = 0: current-thread runtime; else the multi-thread runtime.
pub fn serve(workers: usize, port: u16) -> io::Result<()> {
    let rt = if workers == 0 {
        Builder::new_current_thread().enable_all().build()?
    } else {
        Builder::new_multi_thread().worker_threads(workers).enable_all().build()?
    };
    rt.block_on(accept(port))
}
