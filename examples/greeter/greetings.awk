# Makes greetings.h from greetings.txt: one row for each language.
BEGIN {
    print "/* Made from greetings.txt. */"
    print "static const struct greeting greetings[] = {"
}
/^#/ || NF < 3 { next }
{
    code = $1
    language = $2
    $1 = $2 = ""
    sub(/^ +/, "")
    gsub(/["\\]/, "\\\\&")
    printf "    { \"%s\", \"%s\", \"%s\" },\n", code, language, $0
}
END { print "};" }
