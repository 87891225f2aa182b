# Makes the calls that the arguments name, on x86-64, and prints how each ended. Nothing is opened
# that blocks.
use Fcntl;
sub said { my ($name, $result) = @_; print "$name: ", (defined $result && $result != -1 && $result ne '' ? $result : "$!"), "\n"; }
sub number { my ($call, @arguments) = @_; my $result = syscall($call, @arguments); return $result == -1 ? undef : "ok $result"; }
sub handle { my ($path, $flags, $mode) = @_; sysopen(my $file, $path, $flags | O_NONBLOCK, $mode // 0666) or return; return $file; }
sub times_of { my ($access, $change) = @_; return pack 'q4', map { $_ eq 'now' ? (0, 0x3fffffff) : $_ eq 'omit' ? (0, 0x3ffffffe) : ($_, 0) } $access, $change; }
my $here = -100;
for (@ARGV) {
    my ($call, $a, $b, $c, $d) = split / /;
    my ($x, $y, $z) = map { /^-?\d+$/ ? $_ + 0 : $_ } $b, $c, $d;
    my $result;
    if ($call eq 'truncate') { $result = number(76, $a, $x) }
    elsif ($call eq 'ftruncate') { my $f = handle($a, O_RDWR); $result = $f && number(77, fileno $f, $x) }
    elsif ($call eq 'append') { my $f = handle($a, O_WRONLY | O_APPEND | O_CREAT); $result = $f && syswrite $f, $b }
    elsif ($call eq 'append-existing') { my $f = handle($a, O_WRONLY | O_APPEND); $result = $f && syswrite $f, $b }
    elsif ($call eq 'write-at') { my $f = handle($a, O_WRONLY); $result = $f && sysseek($f, $x, 0) && syswrite $f, $c }
    elsif ($call eq 'write-made') { my $f = handle($a, O_RDWR | O_CREAT); $result = $f && sysseek($f, $x, 0) && syswrite $f, $c }
    elsif ($call eq 'overwrite') { my $f = handle($a, O_WRONLY | O_CREAT | O_TRUNC); $result = $f && syswrite $f, $b }
    elsif ($call eq 'exclusive') { my $f = handle($a, O_WRONLY | O_CREAT | O_EXCL); $result = $f && syswrite $f, $b }
    elsif ($call eq 'create') { my $f = handle($a, O_WRONLY | O_CREAT, 0640); $result = $f && 'ok' }
    elsif ($call eq 'open-truncate') { my $f = handle($a, O_WRONLY | O_TRUNC); $result = $f && 'ok' }
    elsif ($call eq 'read-truncate') { my $f = handle($a, O_RDWR | O_TRUNC | O_CREAT); $result = $f && 'ok' }
    elsif ($call eq 'fallocate') { my $f = handle($a, O_RDWR); $result = $f && number(285, fileno $f, $x, $y, $z) }
    elsif ($call eq 'copy-range') { my ($f, $g) = (handle($a, O_RDONLY), handle($b, O_WRONLY | O_CREAT)); $result = $f && $g && number(326, fileno $f, 0, fileno $g, 0, $y, 0) }
    elsif ($call eq 'sendfile') { my ($f, $g) = (handle($a, O_RDONLY), handle($b, O_WRONLY | O_CREAT)); $result = $f && $g && number(40, fileno $g, fileno $f, 0, $y) }
    elsif ($call eq 'sendfile-append') { my ($f, $g) = (handle($a, O_RDONLY), handle($b, O_WRONLY)); $result = $f && $g && sysseek($g, 0, 2) && number(40, fileno $g, fileno $f, 0, $y) }
    elsif ($call eq 'rename') { $result = number(82, $a, $b) }
    elsif ($call eq 'rename2') { $result = number(316, $here, $a, $here, $b, $y) }
    elsif ($call eq 'link') { $result = number(86, $a, $b) }
    elsif ($call eq 'link-follow') { $result = number(265, $here, $a, $here, $b, 0x400) }
    elsif ($call eq 'symlink') { $result = number(88, $a, $b) }
    elsif ($call eq 'relink') { number(87, $b); $result = number(88, $a, $b) }
    elsif ($call eq 'access') { $result = number(21, $a, $x) }
    elsif ($call eq 'unlink') { $result = number(87, $a) }
    elsif ($call eq 'rmdir') { $result = number(84, $a) }
    elsif ($call eq 'unlinkat-dir') { $result = number(263, $here, $a, 0x200) }
    elsif ($call eq 'mkdir') { $result = number(83, $a, oct $b) }
    elsif ($call eq 'mkfifo') { $result = number(133, $a, 010644, 0) }
    elsif ($call eq 'mknod') { $result = number(133, $a, 0100644, 0) }
    elsif ($call eq 'chmod') { $result = number(90, $a, oct $b) }
    elsif ($call eq 'chmod-nofollow') { $result = number(452, $here, $a, oct $b, 0x100) }
    elsif ($call eq 'fchmod') { my $f = handle($a, O_RDONLY); $result = $f && number(91, fileno $f, oct $b) }
    elsif ($call eq 'chown') { $result = number(92, $a, $x, $y) }
    elsif ($call eq 'lchown') { $result = number(94, $a, $x, $y) }
    elsif ($call eq 'fchown') { my $f = handle($a, O_RDONLY); $result = $f && number(93, fileno $f, $x, $y) }
    elsif ($call eq 'setxattr') { $result = number(188, $a, $b, $c, length $c, $z) }
    elsif ($call eq 'lsetxattr') { $result = number(189, $a, $b, $c, length $c, $z) }
    elsif ($call eq 'removexattr') { $result = number(197, $a, $b) }
    elsif ($call eq 'getxattr') { my $value = "\0" x 100; $result = number(191, $a, $b, $value, 100); $result .= " $value" if $result }
    elsif ($call eq 'listxattr') { my $value = "\0" x 400; $result = number(194, $a, $value, 400); $result .= join ' ', '', sort split /\0+/, $value if $result }
    elsif ($call eq 'utimens') { $result = number(280, $here, $a, times_of($b, $c), $z) }
    elsif ($call eq 'utimens-null') { $result = number(280, $here, $a, 0, 0) }
    elsif ($call eq 'futimens') { my $f = handle($a, O_RDONLY); $result = $f && number(280, fileno $f, 0, times_of($b, $b), 0) }
    elsif ($call eq 'tmpfile-link') { my $f = handle($a, O_RDWR | 020200000); if ($f) { syswrite $f, "made\n"; my $name = '/proc/self/fd/' . fileno $f; $result = number(265, $here, $name, $here, $b, 0x400) } }
    elsif ($call eq 'touch-mtime-of') { my @stat = stat $b; $result = @stat && number(280, $here, $a, times_of('omit', 1500000000), 0) }
    elsif ($call eq 'readlink') { $result = readlink $a }
    elsif ($call eq 'list') { if (opendir my $dir, $a) { $result = join ' ', 'ok', sort readdir $dir } }
    elsif ($call eq 'read') { my $f = handle($a, O_RDONLY); if ($f) { my $count = sysread $f, my $text, 100; $result = defined $count && "$count $text" } }
    elsif ($call eq 'size') { my @stat = stat $a; $result = @stat && (-d _ ? 'directory' : "$stat[7] bytes, $stat[3] links") }
    elsif ($call eq 'mode') { my @stat = lstat $a; $result = @stat && sprintf '%o %d %d', @stat[2, 4, 5] }
    said($call, $result);
}
