#pragma once

/* The messages between the owner of a jail (the warden, then the daemon) and its init, over one
 * packet socket.
 *
 * Every question carries an id that its answers repeat, so any number can be in progress at once.
 * Standard streams are descriptors that come with the question: bytes go directly between the
 * command and the holder of the other end, which gives back-pressure and does not involve init. The
 * same goes for the contents of large files and archives.
 *
 * From INIT_FILES on a question is a file verb (jail/wire/file_wire.h). Init serves the small ones
 * at once; a longer one gets a process of its own that answers through init, so that none holds up
 * another and each can be cancelled. */

#include "base/base.h"

enum init_message {
    /* to init */
    INIT_START = 1, /* flags, rows, cols, cwd, argv, env; three descriptors unless a terminal */
    INIT_SIGNAL,    /* command, number: to its process group; command 0: to every process */
    INIT_CANCEL,    /* ends the operation whose id it carries; that one answers, this does not */
    INIT_CONNECT,   /* port: of a server on the loopback of the jail */
    INIT_REHEARSE,  /* get ready for a first command; no answer */
    INIT_ADOPT, /* a start socket (zygote.h): the interpreter started on it is a command with this
                   id */
    INIT_GROUP, /* the files of one control group for commands (cgroup.h); no answer */
    INIT_FILES = 64, /* to 127: a question; its data descriptor, the helper program */
    /* from init */
    INIT_READY = 128, /* the setup is complete; init's first message */
    INIT_BROKEN,      /* err: the setup failed; last message of all */
    INIT_STARTED,     /* pid inside; with a terminal its controlling descriptor */
    INIT_REFUSED,     /* stage, errno: the command did not start */
    INIT_EXITED,      /* code, signal, user us, system us, peak KiB, wall ns; of its control group
                       * how many were killed for memory and the peak in bytes, -1: unknown */
    INIT_DONE,        /* answer to a signal: errno */
    INIT_CONNECTED,   /* with the socket */
    INIT_PART,        /* records; more follows */
    INIT_ANSWER,      /* to a file verb; last one */
    INIT_FAILED,      /* err: to a file verb, a connect or an adopt; last one */
    /* before init runs, only to the warden */
    INIT_LAYER = 192, /* with the writable layer, when it is in memory */
    INIT_CLONED,      /* pid outside; with its pidfd: from the init spawner, at any time */
    INIT_NOT_CLONED,  /* err: the init spawner could not clone; last message of all */
};

enum { INIT_FLAG_TTY = 1 };

/* Descriptors that the warden, and then init, begin with. The warden's pidfd is already open, and
 * is closed with everything else that is not for init. */
enum { SETUP_CONTROL_FD = 3, SETUP_OOM_FD = 4, SETUP_ALIVE_FD = 5 };

/* Why a command did not start; each gets its own words. */
enum init_stage {
    INIT_STAGE_MESSAGE, /* the question made no sense */
    INIT_STAGE_LIMIT,   /* no process or descriptor left */
    INIT_STAGE_CWD,
    INIT_STAGE_PROGRAM,     /* not found, no permission, no format: errno says which */
    INIT_STAGE_INTERPRETER, /* the program exists, the interpreter that its first line or header
                               names does not */
};

/* The main function of pid 1, once the setup is complete. */
void init_serve(void) NORETURN;
