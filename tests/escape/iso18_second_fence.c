/* The directory that holds mount points is on a writable filesystem and is ours: only Landlock
 * keeps us from writing to it. */

#include "probe.h"

#include <fcntl.h>
#include <sys/stat.h>

int main(void)
{
    struct stat st;
    must_work("/mnt is ours", stat("/mnt", &st) == 0 && st.st_uid == getuid());
    must_fail("make a file", open("/mnt/new", O_CREAT | O_WRONLY, 0600), EACCES);
    must_fail("make a directory", mkdir("/mnt/dir", 0700), EACCES);
    must_fail("link out of a writable place", rename("/workspace", "/mnt/moved"), 0);
    must_work("make one where we may", open("/workspace/new", O_CREAT | O_WRONLY, 0600) >= 0);
    return probe_end();
}
