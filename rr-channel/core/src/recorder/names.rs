//! Numbers of the threads of a session, and of the processes that it starts.

use rr_channel_log::StartedProcess;
use rr_channel_log::identity::{Dti, ThreadId};
use rustc_hash::FxHashMap;

/// The registering thread: one of known path, or one that came from elsewhere.
#[derive(Debug)]
pub enum Who {
    Known(Dti),
    Foreign(String),
}

/// The interned threads of a session.
#[derive(Debug, Default)]
pub struct Names {
    ids: FxHashMap<Dti, ThreadId>,
    /// The first number that no thread has.
    pub next: u32,
    foreign: FxHashMap<String, u32>,
    /// Processes, by the thread that starts them and which one of its that is.
    processes: FxHashMap<(ThreadId, u32), u32>,
    last_process: u32,
}

impl Names {
    /// Takes over a recorded process's number.
    pub fn preset_process(&mut self, process: StartedProcess) {
        self.last_process = self.last_process.max(process.number);
        let who = (process.thread, process.count);
        self.processes.insert(who, process.number);
    }

    /// The threads of other processes.
    pub fn elsewhere(&self) -> rustc_hash::FxHashSet<ThreadId> {
        let elsewhere = self.ids.iter().filter(|(dti, _)| dti.is_elsewhere());
        elsewhere.map(|(_, id)| *id).collect()
    }

    /// The number of the thread's `count`th process.
    pub fn intern_process(&mut self, thread: ThreadId, count: u32) -> u32 {
        let next = self.last_process + 1;
        let number = *self.processes.entry((thread, count)).or_insert(next);
        self.last_process = self.last_process.max(number);
        number
    }

    /// Takes over a recorded thread's number.
    pub fn preset(&mut self, id: ThreadId, dti: Dti) {
        self.next = self.next.max(id.0 + 1);
        self.ids.insert(dti, id);
    }

    /// The thread's number and name, the same ones for the same path.
    pub fn intern(&mut self, who: Who) -> (ThreadId, Dti) {
        let dti = match who {
            Who::Known(dti) => dti,
            Who::Foreign(name) => {
                let occurrence = self.foreign.entry(name.clone()).or_default();
                *occurrence += 1;
                Dti::foreign(name, *occurrence)
            }
        };
        let (id, _) = self.intern_new(dti.clone());
        (id, dti)
    }

    /// A thread's number, and whether it is new.
    pub fn intern_new(&mut self, dti: Dti) -> (ThreadId, bool) {
        if let Some(id) = self.ids.get(&dti) {
            return (*id, false);
        }
        // Threads beyond the limit share the last number; their messages mix.
        let id = ThreadId(self.next.min(ThreadId::LIMIT - 1));
        self.next = id.0 + 1;
        self.ids.insert(dti, id);
        (id, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_keeps_its_number() {
        let mut names = Names::default();
        let main = names.intern(Who::Known(Dti::main()));
        let child = names.intern(Who::Known(Dti::main().child(1)));
        assert_ne!(main.0, child.0);
        assert_eq!(names.intern(Who::Known(Dti::main())), main);
    }

    #[test]
    fn recorded_numbers_are_handed_out_again() {
        let mut names = Names::default();
        names.preset(ThreadId(5), Dti::main());
        assert_eq!(names.intern(Who::Known(Dti::main())).0, ThreadId(5));
        assert_eq!(
            names.intern(Who::Known(Dti::main().child(1))).0,
            ThreadId(6)
        );
    }

    #[test]
    fn foreign_threads_of_one_name_are_counted() {
        let mut names = Names::default();
        let names: Vec<_> = ["w", "w", ""]
            .map(|name| names.intern(Who::Foreign(name.to_owned())).1.to_string())
            .into();
        assert_eq!(names, ["w", "w#2", "#1"]);
    }
}
