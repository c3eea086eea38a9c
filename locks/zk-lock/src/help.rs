//! The texts of `--help` beyond the options.

/// The forms of the command.
pub(crate) const USAGE: &str = "zk-lock [OPTIONS] --zookeeper <HOST:PORT,…> --path <PATH> [--] <COMMAND> [ARG]...
       zk-lock [OPTIONS] --zookeeper <HOST:PORT,…> --list <PATH> [--json]
       zk-lock [OPTIONS] --zookeeper <HOST:PORT,…> --revoke <PATH> [--json]
       zk-lock --completions <SHELL> | --man";

// The lines of the following texts fit 80 columns: clap breaks longer ones without their indentation.

/// Examples, for `-h` and `--help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  # one backup at a time, or none
  zk-lock --path /locks/backup --timeout 0s -- ./backup.sh
  # four imports at a time, each waiting up to a minute
  zk-lock --path /locks/import --recipe semaphore=4 --timeout 1m -- ./import.sh
  # one instance leads; the next one takes over when it ends or is cut off
  zk-lock --path /leaders/billing --lead -- ./billing-service
  # many read while nobody writes
  zk-lock --path /locks/prices --recipe read -- ./report.sh
  zk-lock --path /locks/prices --recipe write -- ./reprice.sh
  # the database refuses a holder that was overtaken
  zk-lock --path /locks/a -- sh -c 'psql -v token=\"$LOCK_TOKEN\" -f settle.sql'
  # one host of many, whose clocks differ, runs a cron job
  zk-lock --path /locks/night --timeout 0s --at-least 10m -q -- ./night.sh
  # the holder and the waiters
  zk-lock --list /locks/backup
  # the holder is asked to give the lock back
  zk-lock --revoke /locks/backup
  # completes the command line in this shell
  source <(zk-lock --completions bash)
  # the manual page
  zk-lock --man >zk-lock.1 && man ./zk-lock.1";

/// The exit statuses, for `-h` and `--help`.
pub(crate) const EXIT_STATUS: &str = "\
Exit status:
  the status of COMMAND, or 128 + N if signal N ended COMMAND, or
   64  the command line, the environment or an input file is wrong
   69  ZooKeeper did not answer or refused, or the session ended before the
       grant
   71  the operating system refused something
   75  the lock was not granted within --timeout
   76  the hold was or may have been lost while COMMAND ran, and COMMAND was
       stopped or succeeded
  126  COMMAND cannot be run
  127  COMMAND does not exist
  128 + N  signal N ended the waiting: 129 after SIGHUP, 130 after Ctrl-C, 143
       after SIGTERM";

/// The part of `--help` that `-h` leaves out.
pub(crate) const DETAILS: &str = "\
Environment:
  ZK_LOCK_AUTH  USER:PASSWORD for ZooKeeper's digest scheme, which COMMAND does
                not see. Only that user can then change the nodes of the
                session, and anyone can read them.

Environment of COMMAND, in addition:
  LOCK_TOKEN  fencing token: a number that grows with every hold of the lock
  LOCK_PATH   path of the ZooKeeper node of the hold

TIME is a number with its unit: 500ms, 5s or 1m30s.

A hold ends with COMMAND, even if COMMAND leaves processes in the background.

A hold is lost if the ZooKeeper servers commit nothing for its session for two
thirds of the session timeout. Another contender may get the lock soon after.
So zk-lock asks COMMAND to stop (SIGTERM), and kills it --kill-after later. The
default of --kill-after ends before another contender can hold the lock. On
Linux, all processes that COMMAND started are stopped with it, if /proc shows
them. On other systems and without /proc its process group is stopped, and at a
terminal COMMAND alone. On Linux, zk-lock says so if processes run on.

A hold is also lost when ZooKeeper reports that somebody deleted its node. With
--lead, a hold is the term of a leader.

All contenders of a semaphore need the same N. zk-lock warns if it finds another
N: with --recipe semaphore=N, and 1 with --recipe semaphore-mutex.

If somebody asks for the lock, zk-lock sends SIGTERM to COMMAND, and holds the
lock until COMMAND has ended. A waiter that is asked for its place stops COMMAND
as soon as it holds.

With --at-least, zk-lock runs on after the end of COMMAND and holds the lock.
Somebody who asks for the lock ends that at once, and so does SIGTERM, SIGINT,
SIGHUP or SIGQUIT, also if it came while COMMAND ran. Then, too, the status is
COMMAND's. If zk-lock or its machine dies, the lock is free after the session
timeout.

A halted zk-lock (Ctrl-Z, SIGSTOP, a suspended machine) does not notice that
its hold is lost before it goes on. If COMMAND succeeds meanwhile, the status is
76 all the same. After a suspension of the machine, only a server can report the
loss. If no server answers within 5 seconds after the end of COMMAND, the status
is COMMAND's. A storage that checks LOCK_TOKEN is safe in all of these cases.

If SIGKILL ends zk-lock, Linux kills COMMAND. Processes that COMMAND started run
on, and so does a COMMAND with privileges of its own (sudo). On other systems
COMMAND runs on, too.

Signals:
  SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 are passed on to
  COMMAND, which decides whether to end. SIGTSTP and SIGCONT are passed on, too:
  zk-lock keeps the lock while COMMAND is halted.
  At a terminal (standard input, output or error), COMMAND is in the process
  group of zk-lock. It can read from the terminal and gets its Ctrl-C, Ctrl-\\
  and Ctrl-Z. So zk-lock passes on only SIGTERM, SIGUSR1 and SIGUSR2.
  A signal that is ignored at the start, as SIGHUP under nohup, stays ignored.";
