#pragma once

/* What the maker of a jail and its init say to each other, over one packet socket.
 *
 * Every question carries an id that its answers repeat, so any number can be under way at once.
 * Standard streams are descriptors that come with the question: bytes go straight between the
 * command and whoever holds the other end, which gives back-pressure and keeps init out of the
 * way. The same goes for the contents of large files and archives.
 *
 * From INIT_FILES on a question is a file verb (jail/file_wire.h). Init serves the small ones at
 * once; a longer one gets a process of its own that answers through init, so that none holds up
 * another and each can be cancelled. */

#include "base/base.h"

enum init_message {
    /* to init */
    INIT_START = 1, /* flags, rows, cols, cwd, argv, env; three descriptors unless a terminal */
    INIT_SIGNAL,    /* command, number: to its process group; command 0: to every process */
    INIT_PING,
    INIT_CANCEL,     /* ends the operation whose id it carries; that one answers, this does not */
    INIT_CONNECT,    /* port: of a server on the loopback of the jail */
    INIT_REHEARSE,   /* get ready for a first command; no answer */
    INIT_ADOPT,      /* a birth (zygote.h): what is born there is a command with this id */
    INIT_FILES = 64, /* to 127: a question; its data descriptor, the helper program */
    /* from init */
    INIT_READY = 128, /* the fence stands; init's first message */
    INIT_BROKEN,      /* err: the fence could not be built; last message of all */
    INIT_STARTED,     /* pid inside; with a terminal its controlling descriptor */
    INIT_REFUSED,     /* stage, errno: the command did not start */
    INIT_EXITED,      /* code, signal, user us, system us, peak KiB, wall ns */
    INIT_DONE,        /* answer to a ping or a signal: errno */
    INIT_CONNECTED,   /* with the socket */
    INIT_PART,        /* records; more follows */
    INIT_ANSWER,      /* to a file verb; last one */
    INIT_FAILED,      /* err: to a file verb, a connect or an adopt; last one */
    /* before init runs, to the maker alone */
    INIT_LAYER = 192, /* with the writable layer, when it lies in memory */
    INIT_BORN,        /* pid outside; with its pidfd: from the seed, at any time */
    INIT_UNBORN,      /* err: the seed could not clone; last message of all */
};

enum { INIT_FLAG_TTY = 1 };

/* Why a command did not start; each gets its own words. */
enum init_stage {
    INIT_STAGE_MESSAGE, /* the question made no sense */
    INIT_STAGE_LIMIT,   /* no process or descriptor left */
    INIT_STAGE_CWD,
    INIT_STAGE_PROGRAM,     /* not found, no permission, no format: errno says which */
    INIT_STAGE_INTERPRETER, /* the program is there, what its first line or header names is not */
};

/* All of pid 1, once the fence stands. */
void init_serve(void) NORETURN;
