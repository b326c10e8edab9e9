//! ZooKeeper: ephemeral nodes.

use crate::locker::{Locker, R};
use std::time::Duration;
use zookeeper_client as zk;

pub async fn connect(port: u16) -> R<zk::Client> {
    let connector = zk::Client::connector().with_session_timeout(Duration::from_secs(20));
    Ok(connector.connect(&format!("127.0.0.1:{port}")).await?)
}

pub async fn make_dir(c: &zk::Client, dir: &str) -> R<()> {
    c.mkdir(dir, &zk::CreateMode::Persistent.with_acls(zk::Acls::anyone_all())).await?;
    Ok(())
}

pub struct Zk {
    pub c: zk::Client,
    pub path: String, // W1
    pub dir: String,  // W3
    pub mine: String,
}
impl Locker for Zk {
    async fn acquire(&mut self) -> R<bool> {
        let opt = zk::CreateMode::Ephemeral.with_acls(zk::Acls::anyone_all());
        match self.c.create(&self.path, b"0123456789abcdef", &opt).await {
            Ok(_) => {
                self.mine.clone_from(&self.path);
                Ok(true)
            }
            Err(zk::Error::NodeExists) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }
    /// The lock recipe: ephemeral sequential node, watch on the predecessor.
    async fn acquire_wait(&mut self) -> R<()> {
        let opt = zk::CreateMode::EphemeralSequential.with_acls(zk::Acls::anyone_all());
        let (_, seq) = self.c.create(&format!("{}/q-", self.dir), b"", &opt).await?;
        let me = format!("q-{seq}");
        self.mine = format!("{}/{me}", self.dir);
        loop {
            let mut ch = self.c.list_children(&self.dir).await?;
            ch.sort();
            let i = ch.iter().position(|c| *c == me).ok_or("own node gone")?;
            if i == 0 {
                return Ok(());
            }
            let pred = format!("{}/{}", self.dir, ch[i - 1]);
            let (stat, w) = self.c.check_and_watch_stat(&pred).await?;
            if stat.is_some() {
                w.changed().await;
            }
        }
    }
    async fn release(&mut self) -> R<bool> {
        match self.c.delete(&self.mine, None).await {
            Ok(()) => Ok(true),
            Err(zk::Error::NoNode) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }
}
