//! etcd: transactions with a watch on the predecessor, and the v3lock service.

use crate::locker::{Locker, R};
use etcd_client as ec;

/// Transactions: create a key if it is not there, delete it.
pub struct EtcdTxn {
    pub kv: ec::KvClient,
    pub watch: ec::WatchClient,
    pub stream: Option<ec::WatchStream>,
    pub key: String,    // W1: the lock's own key
    pub prefix: String, // W3: "<lock>/"; own key is prefix + lease
    pub lease: i64,
    pub waiting: bool, // the own key in use is prefix + lease
}
impl EtcdTxn {
    pub fn new(c: &ec::Client, key: String, lease: i64) -> Self {
        let prefix = format!("{key}/");
        let (kv, watch) = (c.kv_client(), c.watch_client());
        EtcdTxn { kv, watch, stream: None, key, prefix, lease, waiting: false }
    }
}
impl Locker for EtcdTxn {
    async fn acquire(&mut self) -> R<bool> {
        let t = ec::Txn::new()
            .when(vec![ec::Compare::create_revision(self.key.as_str(), ec::CompareOp::Equal, 0)])
            .and_then(vec![ec::TxnOp::put(
                self.key.as_str(),
                "0123456789abcdef",
                Some(ec::PutOptions::new().with_lease(self.lease)),
            )]);
        self.waiting = false;
        Ok(self.kv.txn(t).await?.succeeded())
    }
    /// The recipe of clientv3/concurrency Mutex.Lock.
    async fn acquire_wait(&mut self) -> R<()> {
        self.waiting = true;
        let me = format!("{}{:x}", self.prefix, self.lease);
        let first = ec::GetOptions::new()
            .with_prefix()
            .with_sort(ec::SortTarget::Create, ec::SortOrder::Ascend)
            .with_limit(1);
        let t = ec::Txn::new()
            .when(vec![ec::Compare::create_revision(me.as_str(), ec::CompareOp::Equal, 0)])
            .and_then(vec![
                ec::TxnOp::put(me.as_str(), "", Some(ec::PutOptions::new().with_lease(self.lease))),
                ec::TxnOp::get(self.prefix.as_str(), Some(first)),
            ]);
        let r = self.kv.txn(t).await?;
        if !r.succeeded() {
            return Err("own key was there already".into());
        }
        let rev = r.header().ok_or("no header")?.revision();
        for op in r.op_responses() {
            if let ec::TxnOpResponse::Get(g) = op
                && g.kvs().first().map(|kv| kv.key() == me.as_bytes()) == Some(true)
            {
                return Ok(());
            }
        }
        loop {
            let last = ec::GetOptions::new()
                .with_prefix()
                .with_sort(ec::SortTarget::Create, ec::SortOrder::Descend)
                .with_limit(1)
                .with_max_create_revision(rev - 1);
            let g = self.kv.get(self.prefix.as_str(), Some(last)).await?;
            let Some(pred) = g.kvs().first().map(|kv| kv.key().to_vec()) else {
                return Ok(());
            };
            let from = g.header().ok_or("no header")?.revision() + 1;
            let opt = Some(ec::WatchOptions::new().with_start_revision(from));
            // One watch stream per connection, as clientv3 does; a watch per wait.
            let st = match &mut self.stream {
                Some(st) => {
                    st.watch(pred.clone(), opt).await?;
                    st
                }
                none => none.insert(self.watch.watch(pred.clone(), opt).await?),
            };
            'w: loop {
                let m = st.message().await?.ok_or("watch ended")?;
                if m.canceled() {
                    continue;
                }
                for e in m.events() {
                    if e.event_type() == ec::EventType::Delete
                        && e.kv().map(|k| k.key() == &pred[..]) == Some(true)
                    {
                        let id = m.watch_id();
                        st.cancel(id).await?;
                        break 'w;
                    }
                }
            }
        }
    }
    async fn release(&mut self) -> R<bool> {
        let k = if self.waiting { format!("{}{:x}", self.prefix, self.lease) } else { self.key.clone() };
        Ok(self.kv.delete(k, None).await?.deleted() == 1)
    }
}

/// The v3lock service.
pub struct EtcdLock {
    pub c: ec::LockClient,
    pub name: String,
    pub lease: i64,
    pub held: Vec<u8>,
}
impl Locker for EtcdLock {
    async fn acquire(&mut self) -> R<bool> {
        let r = self.c.lock(self.name.as_str(), Some(ec::LockOptions::new().with_lease(self.lease))).await?;
        self.held = r.key().to_vec();
        Ok(!self.held.is_empty())
    }
    async fn acquire_wait(&mut self) -> R<()> {
        if self.acquire().await? { Ok(()) } else { Err("no key".into()) }
    }
    async fn release(&mut self) -> R<bool> {
        self.c.unlock(std::mem::take(&mut self.held)).await?;
        Ok(true)
    }
}
