//! Who does the jobs: a thread of its own, or whoever drives a test.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use crate::job::{Done, Job};
use crate::storage::Storage;

/// Does jobs, one after the other. The journal hands in the next only when the one before is done.
pub trait Executor: Send {
    /// Takes a job.
    fn submit(&mut self, job: Job);

    /// What has been done since the last call, if anything.
    fn poll(&mut self) -> Option<Done>;

    /// Waits until the job is done.
    fn wait(&mut self) -> Done;
}

/// Does jobs on a thread of its own. Dropping it waits for the end of a job that is under way, so that nobody else
/// gets the directory while something is still written to it.
pub struct Threaded {
    jobs: Option<Sender<Job>>,
    done: Receiver<Done>,
    thread: Option<JoinHandle<()>>,
}

impl Threaded {
    /// Starts the thread. It calls `wake` after each job, and ends when this value is dropped.
    ///
    /// # Errors
    /// If the system starts no thread.
    pub fn start(storage: Arc<dyn Storage>, wake: impl Fn() + Send + 'static) -> io::Result<Self> {
        let (jobs, to_do) = mpsc::channel::<Job>();
        let (finished, done) = mpsc::channel();
        let work = move || {
            for job in to_do {
                let done = job.run(&*storage);
                if finished.send(done).is_err() {
                    return;
                }
                wake();
            }
        };
        let thread = thread::Builder::new().name("journal".to_owned()).spawn(work)?;
        Ok(Self { jobs: Some(jobs), done, thread: Some(thread) })
    }
}

const THREAD_LIVES: &str = "the journal's thread ends only after its executor";

impl Executor for Threaded {
    fn submit(&mut self, job: Job) {
        self.jobs.as_ref().and_then(|jobs| jobs.send(job).ok()).expect(THREAD_LIVES);
    }

    fn poll(&mut self) -> Option<Done> {
        self.done.try_recv().ok()
    }

    fn wait(&mut self) -> Done {
        self.done.recv().expect(THREAD_LIVES)
    }
}

impl Drop for Threaded {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // It ends by itself; a panic in it has been printed.
            let _ = thread.join();
        }
    }
}

#[derive(Default)]
struct Queues {
    jobs: VecDeque<Job>,
    done: VecDeque<Done>,
}

/// Does a job when it is told to: for tests and simulations. A clone is another handle to the same queue.
#[derive(Clone)]
pub struct Manual {
    storage: Arc<dyn Storage>,
    queues: Arc<Mutex<Queues>>,
}

impl Manual {
    /// An executor without work.
    #[must_use]
    pub fn new(storage: Arc<dyn Storage>) -> Self {
        Self { storage, queues: Arc::default() }
    }

    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does the next job. `false`: there is none.
    pub fn step(&self) -> bool {
        let job = self.queues().jobs.pop_front();
        let done = job.map(|job| job.run(&*self.storage));
        let was_one = done.is_some();
        self.queues().done.extend(done);
        was_one
    }
}

impl Executor for Manual {
    fn submit(&mut self, job: Job) {
        self.queues().jobs.push_back(job);
    }

    fn poll(&mut self) -> Option<Done> {
        self.queues().done.pop_front()
    }

    fn wait(&mut self) -> Done {
        self.step();
        self.poll().expect("the journal waits only for a job that it handed in")
    }
}
