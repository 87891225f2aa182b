//! Python scripts, with a module and a package of their own.

use crate::trials::differential::case::{Input, Run};
use crate::trials::differential::dice::Dice;

use super::{Project, common_files, entry, file, run, script, snippet};

/// Statements; `{o}` is a file they write.
const STATEMENTS: &[&str] = &[
    "open('{o}', 'w').write(open('{i}').read().upper())",
    "with open('log.txt', 'a') as f: f.write('more {w}\\n')",
    "print(sorted(os.listdir('src')))",
    "print(sorted(os.listdir('work')), file=sys.stderr)",
    "print(sorted(glob.glob('**/*.txt', recursive=True)))",
    "[print(d, sorted(f)) for d, _, f in sorted(os.walk('work'))]",
    "os.replace('{o}', 'work/moved.txt') if os.path.exists('{o}') else None",
    "shutil.copy('{i}', '{o}')",
    "shutil.copy2('{s}', 'work/copy2.txt')",
    "shutil.rmtree('work/tree', ignore_errors=True); shutil.copytree('src', 'work/tree')",
    "subprocess.run(['sort', '{i}'], stdout=open('{o}', 'w'))",
    "print(subprocess.check_output(['sh', '-c', 'cat {i}; echo {w}']))",
    "print(subprocess.run(['sh', '-c', 'echo err >&2; exit 3'], capture_output=True))",
    "p = subprocess.Popen(['sort'], stdin=subprocess.PIPE, stdout=subprocess.PIPE); print(p.communicate(b'b\\na\\n'))",
    "a = subprocess.Popen(['cat', '{i}'], stdout=subprocess.PIPE); b = subprocess.Popen(['wc', '-l'], stdin=a.stdout, stdout=subprocess.PIPE); a.stdout.close(); print(b.communicate()[0]); a.wait()",
    "subprocess.run('echo shell $VAR_A', shell=True)",
    "os.system('echo system >> log.txt')",
    "os.path.lexists('work/link') or os.symlink('../src/s0.txt', 'work/link'); print(os.readlink('work/link'))",
    "print(os.stat('{i}').st_size, oct(os.stat('{i}').st_mode))",
    "print(os.path.exists('opt/extra.txt'), os.access('{i}', os.X_OK))",
    "import mod_a; print(mod_a.value())",
    "from pack import inner; print(inner.NAME, os.path.relpath(inner.__file__))",
    "importlib.invalidate_caches(); print(importlib.util.find_spec('maybe') is not None)",
    "sys.stdout.write('no newline'); sys.stdout.flush(); sys.stderr.write('err\\n')",
    "print(repr(sys.stdin.read()))",
    "print(repr(sys.stdin.readline()))",
    "print(sys.argv[1:], os.environ.get('VAR_A'), os.getcwd())",
    "t = tempfile.TemporaryFile(); t.write(b'{w}'); t.seek(0); print(t.read())",
    "d = tempfile.mkdtemp(dir='work'); open(d + '/x', 'w').write('x'); print(sorted(os.listdir(d))); shutil.rmtree(d)",
    "pid = os.fork() or (open('{o}', 'w').write('child'), os._exit(4)); print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))",
    "r, w = os.pipe(); (os.fork() or (os.write(w, b'hi'), os._exit(0))); print(os.read(r, 9)); os.wait()",
    "open('{o}', 'w').write('0123456789'); f = open('{o}', 'r+b'); m = mmap.mmap(f.fileno(), 0); m[2:4] = b'xy'; m.flush(); m.close(); f.close()",
    "f = os.open('work/pw.bin', os.O_RDWR | os.O_CREAT, 0o644); os.pwrite(f, b'abc', 5); print(os.pread(f, 99, 0)); os.close(f)",
    "open('work/tr.txt', 'w').write('long text'); os.truncate('work/tr.txt', 4)",
    "os.path.exists('work/hl') or (open('work/tr2.txt', 'a').close(), os.link('work/tr2.txt', 'work/hl'))",
    "open('work/ut.txt', 'a').close(); os.utime('work/ut.txt', (1e9, 1.1e9)); print(os.stat('work/ut.txt').st_mtime)",
    "os.makedirs('work/x/y/z', exist_ok=True); open('work/x/y/z/f', 'w').write('{w}')",
    "shutil.rmtree('work/x', ignore_errors=True)",
    "open('{o}', 'wb').write(os.urandom(0) + b'nothing random')",
    "t = threading.Thread(target=lambda: open('{o}', 'w').write('thread')); t.start(); t.join()",
    "a, b = socket.socketpair(); a.send(b'pair'); print(b.recv(9)); a.close(); b.close()",
    "f = open('work/lock', 'w'); fcntl.flock(f, fcntl.LOCK_EX); f.write('{w}'); f.close()",
    "c = sqlite3.connect('work/db.sqlite'); c.execute('create table if not exists t(x)'); c.execute('insert into t values (1)'); c.commit(); print(c.execute('select count(*) from t').fetchone()); c.close()",
    "json.dump({'a': [1, 2], 'w': '{w}'}, open('{o}', 'w'), indent=1)",
    "f = os.open('{i}', os.O_RDONLY); g = os.open('{o}', os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o640); os.copy_file_range(f, g, 1 << 20); os.close(f); os.close(g)",
    "f = open('{i}', 'rb'); g = open('{o}', 'wb'); os.sendfile(g.fileno(), f.fileno(), 0, 1 << 20); f.close(); g.close()",
    "f = os.open('work', os.O_TMPFILE | os.O_RDWR); os.write(f, b'anonymous'); os.path.exists('work/anon') or os.link(f'/proc/self/fd/{f}', 'work/anon', follow_symlinks=True); os.close(f)",
    "d = os.open('work', os.O_RDONLY); f = os.open('at.txt', os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644, dir_fd=d); os.write(f, b'{w}'); os.close(f); os.close(d)",
    "os.chdir('src'); print(open('s0.txt').read()); os.chdir('..')",
    "os.umask(0o027); open('work/masked', 'w').close()",
    "f = open('{o}', 'w'); os.dup2(f.fileno(), 9); os.write(9, b'nine'); os.close(9); f.close()",
    "os.remove('{o}') if os.path.exists('{o}') else print('no output')",
    "os.path.exists('work/fifo') or os.mkfifo('work/fifo')",
    "print(pathlib.Path('{i}').read_bytes()[:20])",
    "open('gen_mod.py', 'w').write('VALUE = 3\\n'); os.utime('gen_mod.py', (1e9, 1e9)); importlib.invalidate_caches(); import gen_mod; print(gen_mod.VALUE)",
    "print(hash(frozenset([1, 2])), sum(ord(c) for c in open('{i}').read()))",
    "signal.signal(signal.SIGUSR1, lambda *a: print('usr1')); os.kill(os.getpid(), signal.SIGUSR1)",
    "with concurrent.futures.ThreadPoolExecutor(2) as e: print(list(e.map(len, ['a', 'bb', 'ccc'])))",
];

const ENDS: &[&str] = &[
    "sys.exit(3)",
    "sys.exit('message')",
    "raise ValueError('{w}')",
    "os.kill(os.getpid(), signal.SIGTERM)",
    "os._exit(5)",
    "os.execvp('cat', ['cat', '{i}'])",
    "os.abort()",
];

const IMPORTS: &str = "import concurrent.futures, fcntl, glob, importlib.util, json, mmap, os, pathlib, shutil, signal, socket, sqlite3, subprocess, sys, tempfile, threading\n";

/// A script, a module, a package.
pub(super) fn project(dice: &mut Dice) -> Project {
    // A .pyc holds the time of its source in seconds.
    let pin_times = true;
    let (mut entries, sources) = common_files(dice, pin_times);
    let outputs: Vec<String> = [
        "out/p0.txt",
        "out/p1.txt",
        "work/link",
        "__pycache__",
        "log.txt",
        "work/db.sqlite",
    ]
    .map(String::from)
    .to_vec();
    let mut inputs = sources.clone();
    inputs.push("out/p0.txt".into());
    let mut blocks: Vec<String> = Vec::new();
    for _ in 0..dice.range(2, 8) {
        let statement = dice.pick(STATEMENTS);
        let output = format!("out/p{}.txt", dice.below(3));
        blocks.push(format!(
            "{}\n",
            snippet::fill(dice, statement, &inputs, &sources, &output)
        ));
    }
    if dice.chance(15) {
        let end = dice.pick(ENDS);
        blocks.push(format!(
            "{}\n",
            snippet::fill(dice, end, &inputs, &sources, "")
        ));
    }
    // Only what is used is imported: every import costs each run some time.
    let used: Vec<&str> = IMPORTS
        .trim_start_matches("import ")
        .trim_end()
        .split(", ")
        .filter(|module| {
            blocks
                .iter()
                .any(|block| block.contains(module.split('.').next().unwrap_or(module)))
        })
        .chain(["os", "sys"])
        .collect();
    blocks.insert(
        0,
        format!(
            "import {}\nos.makedirs('work', exist_ok=True); os.makedirs('out', exist_ok=True)\n",
            used.join(", ")
        ),
    );
    entries.push(entry("main.py", script(blocks)));
    entries.push(entry(
        "mod_a.py",
        file(
            vec![
                "import pack\n".into(),
                format!("def value(): return {}\n", dice.below(1000)),
            ],
            dice,
        ),
    ));
    entries.push(entry(
        "pack/__init__.py",
        file(vec!["# package\n".into()], dice),
    ));
    entries.push(entry(
        "pack/inner.py",
        file(vec![format!("NAME = 'inner {}'\n", dice.below(10))], dice),
    ));
    let commands = vec![
        run(&["python3", "-S", "main.py"]),
        run(&["python3", "-S", "main.py", "one", "two"]),
        run(&["python3", "-S", "-B", "main.py"]),
        run(&[
            "python3",
            "-I",
            "-S",
            "-c",
            "print(open('src/s0.txt').read())",
        ]),
        // In parentheses: else "Terminated" comes from the shell outside, and races with `cat`.
        run(&["sh", "-c", "(python3 -S main.py; true) 2>&1 | cat"]),
        run(&["python3", "-S", "-c", "import mod_a; print(mod_a.value())"]),
        run(&["python3", "-S", "-m", "compileall", "-q", "pack"]),
        run(&["rm", "-rf", "out", "work", "__pycache__"]),
        Run {
            input: Input::Pipe("first\nsecond\n".into()),
            ..run(&["python3", "-S", "main.py"])
        },
        Run {
            cwd: "src".into(),
            ..run(&["python3", "-S", "../main.py"])
        },
        run(&["python3", "main.py"]),
    ];
    let mut project_sources = sources;
    project_sources.extend(["mod_a.py", "pack/inner.py", "pack/__init__.py"].map(String::from));
    Project {
        kind: "python",
        entries,
        sources: project_sources,
        outputs,
        scripts: vec!["main.py".into(), "mod_a.py".into()],
        commands,
        pin_times,
    }
}
