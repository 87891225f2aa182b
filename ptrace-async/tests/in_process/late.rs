//! Programs that cannot come to it later on.

use crate::support::goes_on_with_stops;

#[test]
fn a_program_that_uses_the_place_itself_keeps_it() {
    for at in ["0x7e9000000000", "0x7e9000001000", "0x7e9000020000"] {
        let main = r#"int main(int argc, char **argv) {
            begin(argv[1]);
            char *own = mmap((void *)PLACE, 4096, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
            strcpy(own, "mine");
            for (int i = 0; i < 300; i++) make("look/", i);
            CHECK(!strcmp(own, "mine"));
            return 0;
        }"#;
        let run = goes_on_with_stops(&main.replace("PLACE", at));
        assert_eq!(run.logged, 0, "{at}");
    }
}

#[test]
fn a_program_without_memory_or_descriptors_runs_on() {
    // Less than there is already, in bytes and in numbers.
    for limit in ["RLIMIT_AS", "RLIMIT_NOFILE"] {
        let main = r#"int main(int argc, char **argv) {
            begin(argv[1]);
            struct rlimit limit;
            getrlimit(LIMIT, &limit);
            limit.rlim_cur = 3;
            CHECK(!setrlimit(LIMIT, &limit));
            for (int i = 0; i < 300; i++) make("look/", i);
            return 0;
        }"#;
        let run = goes_on_with_stops(&main.replace("LIMIT", limit));
        assert_eq!(run.logged, 0, "{limit}");
    }
}
