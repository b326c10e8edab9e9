//! PostgreSQL: advisory locks of a session.

use crate::locker::{Locker, R};
use std::rc::Rc;

/// A connection with its prepared statements.
pub struct PgConn {
    pub c: tokio_postgres::Client,
    pub tri: tokio_postgres::Statement,
    pub blk: tokio_postgres::Statement,
    pub unl: tokio_postgres::Statement,
}
impl PgConn {
    pub async fn connect(port: u16) -> R<Rc<Self>> {
        let (c, conn) = tokio_postgres::connect(
            &format!("host=127.0.0.1 port={port} user=postgres dbname=postgres"),
            tokio_postgres::NoTls,
        )
        .await?;
        tokio::spawn(async move {
            if let Err(e) = conn.await {
                eprintln!("postgres connection: {e}");
            }
        });
        let tri = c.prepare("select pg_try_advisory_lock(hashtextextended($1::text,0))").await?;
        let blk = c.prepare("select pg_advisory_lock(hashtextextended($1::text,0))::text").await?;
        let unl = c.prepare("select pg_advisory_unlock(hashtextextended($1::text,0))").await?;
        Ok(Rc::new(PgConn { c, tri, blk, unl }))
    }
}
pub struct Pg {
    pub c: Rc<PgConn>,
    pub key: String,
}
impl Locker for Pg {
    async fn acquire(&mut self) -> R<bool> {
        Ok(self.c.c.query_one(&self.c.tri, &[&self.key]).await?.get(0))
    }
    async fn acquire_wait(&mut self) -> R<()> {
        self.c.c.query_one(&self.c.blk, &[&self.key]).await?;
        Ok(())
    }
    async fn release(&mut self) -> R<bool> {
        Ok(self.c.c.query_one(&self.c.unl, &[&self.key]).await?.get(0))
    }
}
