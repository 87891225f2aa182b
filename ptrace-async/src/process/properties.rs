//! Random histories of descriptor tables, compared with a very simple model.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use proptest::prelude::*;

use super::nr;
use super::testing::{Case, TID};
use crate::event::{OfdId, Tid};

/// An action of one process. `who` selects one of the living tasks; descriptors may be open
/// or not.
#[derive(Debug, Clone)]
enum Action {
    Open { cloexec: bool },
    Pipe { cloexec: bool },
    Dup { fd: i32 },
    Dup2 { old: i32, new: i32 },
    Dup3 { old: i32, new: i32, cloexec: bool },
    DupFrom { fd: i32, least: i32, cloexec: bool },
    SetCloexec { fd: i32, cloexec: bool },
    Close { fd: i32 },
    CloseRange { first: i32, last: i32, flags: u64 },
    Unshare,
    Fork { files: bool, thread: bool },
    Exec,
    Exit,
}

fn fd() -> impl Strategy<Value = i32> {
    0..12_i32
}

fn action() -> impl Strategy<Value = Action> {
    use Action as A;
    prop_oneof![
        4 => any::<bool>().prop_map(|cloexec| A::Open { cloexec }),
        1 => any::<bool>().prop_map(|cloexec| A::Pipe { cloexec }),
        2 => fd().prop_map(|fd| A::Dup { fd }),
        2 => (fd(), fd()).prop_map(|(old, new)| A::Dup2 { old, new }),
        2 => (fd(), fd(), any::<bool>())
            .prop_map(|(old, new, cloexec)| A::Dup3 { old, new, cloexec }),
        2 => (fd(), fd(), any::<bool>())
            .prop_map(|(fd, least, cloexec)| A::DupFrom { fd, least, cloexec }),
        2 => (fd(), any::<bool>()).prop_map(|(fd, cloexec)| A::SetCloexec { fd, cloexec }),
        2 => fd().prop_map(|fd| A::Close { fd }),
        1 => (fd(), fd(), prop::sample::select(vec![0_u64, 2, 4, 6]))
            .prop_map(|(first, last, flags)| A::CloseRange { first, last, flags }),
        1 => Just(A::Unshare),
        2 => (any::<bool>(), any::<bool>())
            .prop_map(|(files, thread)| A::Fork { files, thread }),
        1 => Just(A::Exec),
        1 => Just(A::Exit),
    ]
}

const EBADF: i64 = -(libc::EBADF as i64);
const EINVAL: i64 = -(libc::EINVAL as i64);

/// Number, and close-on-exec.
type Files = BTreeMap<i32, (u64, bool)>;

struct Reference {
    tables: BTreeMap<Tid, Rc<RefCell<Files>>>,
    groups: BTreeMap<Tid, Tid>,
    next_file: u64,
    next_tid: Tid,
}

impl Reference {
    fn free(files: &Files, least: i32) -> i32 {
        (least..).find(|fd| !files.contains_key(fd)).unwrap()
    }

    fn make(&mut self, files: &mut Files, cloexec: bool) -> i64 {
        self.next_file += 1;
        let fd = Self::free(files, 0);
        files.insert(fd, (self.next_file, cloexec));
        i64::from(fd)
    }

    fn copy(files: &mut Files, old: i32, new: i32, cloexec: bool) -> i64 {
        let Some((file, _)) = files.get(&old).copied() else {
            return EBADF;
        };
        files.insert(new, (file, cloexec));
        i64::from(new)
    }
}

fn perform(reference: &mut Reference, case: &mut Case, tid: Tid, action: &Action) {
    let word = |fd: i32| fd as u32 as u64;
    let flag = |set: bool| if set { libc::O_CLOEXEC as u64 } else { 0 };
    let shared = Rc::clone(&reference.tables[&tid]);
    let mut files = shared.borrow_mut();
    match *action {
        Action::Open { cloexec } => {
            let path = case.text("f");
            let fd = reference.make(&mut files, cloexec);
            case.call_by(tid, nr::open, &[path, flag(cloexec)], fd);
        }
        Action::Pipe { cloexec } => {
            let read = reference.make(&mut files, cloexec);
            let write = reference.make(&mut files, cloexec);
            let pair = case.ints(&[read as i32, write as i32]);
            case.call_by(tid, nr::pipe2, &[pair, flag(cloexec)], 0);
        }
        Action::Dup { fd } => {
            let new = Reference::free(&files, 0);
            let result = Reference::copy(&mut files, fd, new, false);
            case.call_by(tid, nr::dup, &[word(fd)], result);
        }
        Action::Dup2 { old, new } if old == new => {
            let result = if files.contains_key(&old) {
                i64::from(new)
            } else {
                EBADF
            };
            case.call_by(tid, nr::dup2, &[word(old), word(new)], result);
        }
        Action::Dup2 { old, new } => {
            let result = Reference::copy(&mut files, old, new, false);
            case.call_by(tid, nr::dup2, &[word(old), word(new)], result);
        }
        Action::Dup3 { old, new, cloexec } => {
            let result = if old == new {
                EINVAL
            } else {
                Reference::copy(&mut files, old, new, cloexec)
            };
            case.call_by(
                tid,
                nr::dup3,
                &[word(old), word(new), flag(cloexec)],
                result,
            );
        }
        Action::DupFrom { fd, least, cloexec } => {
            let new = Reference::free(&files, least);
            let result = Reference::copy(&mut files, fd, new, cloexec);
            let command = if cloexec {
                libc::F_DUPFD_CLOEXEC
            } else {
                libc::F_DUPFD
            };
            case.call_by(
                tid,
                nr::fcntl,
                &[word(fd), word(command), word(least)],
                result,
            );
        }
        Action::SetCloexec { fd, cloexec } => {
            let result = match files.get_mut(&fd) {
                Some(slot) => {
                    slot.1 = cloexec;
                    0
                }
                None => EBADF,
            };
            let args = [word(fd), libc::F_SETFD as u64, u64::from(cloexec)];
            case.call_by(tid, nr::fcntl, &args, result);
        }
        Action::Close { fd } => {
            let result = if files.remove(&fd).is_some() {
                0
            } else {
                EBADF
            };
            case.call_by(tid, nr::close, &[word(fd)], result);
        }
        Action::CloseRange { first, last, flags } => {
            let result = if first > last { EINVAL } else { 0 };
            let change = |files: &mut Files| {
                if flags & 4 != 0 {
                    for (_, slot) in files.range_mut(first..=last) {
                        slot.1 = true;
                    }
                } else {
                    files.retain(|fd, _| !(first..=last).contains(fd));
                }
            };
            if result == 0 && flags & 2 != 0 {
                let mut own = files.clone();
                change(&mut own);
                reference.tables.insert(tid, Rc::new(RefCell::new(own)));
            } else if result == 0 {
                change(&mut files);
            }
            case.call_by(
                tid,
                nr::close_range,
                &[word(first), word(last), flags],
                result,
            );
        }
        Action::Unshare => {
            let own = Rc::new(RefCell::new(files.clone()));
            reference.tables.insert(tid, own);
            case.call_by(tid, nr::unshare, &[libc::CLONE_FILES as u64], 0);
        }
        Action::Fork {
            files: common,
            thread,
        } => {
            let child = reference.next_tid;
            reference.next_tid += 1;
            let table = if common {
                Rc::clone(&shared)
            } else {
                Rc::new(RefCell::new(files.clone()))
            };
            let group = if thread {
                reference.groups[&tid]
            } else {
                child
            };
            reference.tables.insert(child, table);
            reference.groups.insert(child, group);
            let mut flags = 0;
            for (set, flag) in [(common, libc::CLONE_FILES), (thread, libc::CLONE_THREAD)] {
                if set {
                    flags |= flag as u64;
                }
            }
            case.model.spawned(tid, child, flags);
        }
        Action::Exec => {
            let leader = reference.groups[&tid];
            let kept = files.iter().filter(|(_, slot)| !slot.1);
            let own: Files = kept.map(|(fd, slot)| (*fd, *slot)).collect();
            let groups = &mut reference.groups;
            reference.tables.retain(|other, _| groups[other] != leader);
            groups.retain(|_, group| *group != leader);
            groups.insert(leader, leader);
            reference.tables.insert(leader, Rc::new(RefCell::new(own)));
            case.model.exec(leader, tid);
        }
        Action::Exit => {
            if reference.tables.len() > 1 {
                reference.tables.remove(&tid);
                reference.groups.remove(&tid);
                case.model.exited(tid);
            }
        }
    }
}

/// All tables, with descriptions numbered in the order of their appearance.
fn numbered<I>(tables: I) -> Vec<(Tid, i32, usize, bool)>
where
    I: IntoIterator<Item = (Tid, i32, u64, bool)>,
{
    let mut seen = Vec::new();
    let mut number = |file: u64| {
        seen.iter()
            .position(|other| *other == file)
            .unwrap_or_else(|| {
                seen.push(file);
                seen.len() - 1
            })
    };
    tables
        .into_iter()
        .map(|(tid, fd, file, cloexec)| (tid, fd, number(file), cloexec))
        .collect()
}

fn run(history: &[(prop::sample::Index, Action)]) {
    let mut case = Case::new();
    let initial: Files = case
        .model
        .descriptors(TID)
        .map(|(fd, file, cloexec)| (fd, (file.id.0, cloexec)))
        .collect();
    let mut reference = Reference {
        tables: BTreeMap::from([(TID, Rc::new(RefCell::new(initial)))]),
        groups: BTreeMap::from([(TID, TID)]),
        next_file: 1000,
        next_tid: TID + 1,
    };
    for (who, action) in history {
        let alive: Vec<Tid> = reference.tables.keys().copied().collect();
        let tid = alive[who.index(alive.len())];
        perform(&mut reference, &mut case, tid, action);
        let expected = reference.tables.iter().flat_map(|(tid, table)| {
            let files = table.borrow().clone();
            let tid = *tid;
            files
                .into_iter()
                .map(move |(fd, (file, cloexec))| (tid, fd, file, cloexec))
        });
        let alive = reference.tables.keys().copied();
        let model = &case.model;
        let actual = alive.flat_map(|tid| {
            let descriptors = model.descriptors(tid);
            descriptors.map(move |(fd, file, cloexec)| {
                let OfdId(file) = file.id;
                (tid, fd, file, cloexec)
            })
        });
        assert_eq!(numbered(actual), numbered(expected), "{action:?} by {tid}");
        assert_eq!(model.tasks().count(), reference.tables.len());
    }
}

proptest! {
    #[test]
    fn tables_follow_every_history(
        history in prop::collection::vec((any::<prop::sample::Index>(), action()), 1..60)
    ) {
        run(&history);
    }

    #[test]
    fn no_syscall_and_no_memory_makes_the_model_panic(
        calls in prop::collection::vec((0_u64..475, any::<[u16; 6]>(), any::<i64>()), 1..20),
        memory in prop::collection::vec(any::<u8>(), 0..4096),
    ) {
        let mut case = Case::new();
        let base = case.bytes(&memory);
        for (nr, args, result) in calls {
            // Small numbers are descriptors and flags, larger ones addresses.
            let args = args.map(|word| match word {
                0..=0x7fff => u64::from(word & 0xff),
                word => base + u64::from(word & 0xfff),
            });
            case.call(nr, &args, result);
        }
    }
}
