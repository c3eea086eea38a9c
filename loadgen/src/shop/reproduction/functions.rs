//! The fixed parts of a script.

/// What every script begins with. A background process of a shell ignores Ctrl-C, so the script ends its requests itself.
pub(super) const BEGINNING: &str = r#"set -eu
export LC_ALL=C no_proxy='*'
folder=$(mktemp -d)
buyers=
trap 'rm -rf "$folder"' EXIT
trap stop INT TERM HUP

# Ends the requests that are under way.
stop() {
    trap '' INT TERM HUP
    # shellcheck disable=SC2086
    kill ${!:-} $buyers 2>/dev/null || true
    wait
    exit 130
}

# Says why there can be no try.
unusable() {
    echo "$1" >&2
    exit 2
}

# Says what is wrong.
wrong() {
    echo "WRONG: $1"
    is_wrong=yes
}

# Sends a request, and keeps its answer by a name.
curl_as() {
    name=$1
    shift
    curl -gsS --max-time 60 -o "$folder/$name.body" -D "$folder/$name.head" -w '%{http_code}' "$@" \
        >"$folder/$name.status" &
    wait "$!" || true
}

"#;

/// The functions that only some scripts need, each by its name. A function may need those after it.
const FUNCTIONS: [(&str, &str); 8] = [
    ("buys", "# Sends the one request of a buyer.\nbuys() {\n    trap stop TERM\n    curl_as \"$@\"\n}\n\n"),
    (
        "succeeds",
        "# Ends the script unless a request has succeeded. A form of a buyer may be answered by a redirect.\n\
         succeeds() {\n    \
             case $(cat \"$folder/$1.status\")${3:-} in\n        \
                 2??* | 30[23]form) ;;\n        \
                 *) unusable \"$2 failed: answered $(cat \"$folder/$1.status\") $(head -c 300 \"$folder/$1.body\" 2>/dev/null)\" ;;\n    \
             esac\n\
         }\n\n",
    ),
    (
        "whole",
        "# Ends the script unless the books have a whole number.\n\
         whole() {\n    \
             case $1 in\n        \
                 '' | - | ?*-* | *[!0-9-]*) unusable \"the books have \\\"$1\\\" in the place of a whole number\" ;;\n    \
             esac\n\
         }\n\n",
    ),
    ("uri", "# Encodes a value for a URL.\nuri() { jq -rn --arg text \"$1\" '$text | @uri'; }\n\n"),
    (
        "json",
        "# Takes a value of a JSON answer. Older versions of jq round long numbers, so they become texts.\n\
         json() {\n    \
             sed -E 's/([:[,] *)(-?[0-9]{16,})( *[],}])/\\1\"\\2\"\\3/g' \"$folder/$1.body\" 2>/dev/null |\n        \
                 jq -r \"$2 | scalars | values\" 2>/dev/null || true\n\
         }\n\n",
    ),
    (
        "json_has",
        "# Tells whether a JSON answer has a value.\njson_has() { jq -e \"$2\" \"$folder/$1.body\" >/dev/null 2>&1; }\n\n",
    ),
    (
        "header",
        "# Takes a header of an answer.\n\
         header() { tr -d '\\r' <\"$folder/$1.head\" | sed -n \"s/^$2: *//Ip\" | tail -n 1; }\n\n",
    ),
    (
        "cookie",
        "# Takes a cookie of an answer.\n\
         cookie() { tr -d '\\r' <\"$folder/$1.head\" | sed -n \"s/^set-cookie: *$2=\\([^;]*\\).*/\\1/Ip\" | tail -n 1; }\n\n",
    ),
];

/// Returns the functions that a script calls.
pub(super) fn called_in(script: &str) -> String {
    FUNCTIONS.iter().filter(|(name, _)| script.contains(&format!("{name} "))).map(|(_, function)| *function).collect()
}
