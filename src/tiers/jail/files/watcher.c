/* News of a jail's directory: its init watches, and says what changed. */

#include "base/err.h"
#include "base/hold.h"
#include "jail/client/files.h"
#include "jail/client/jail.h"
#include "tiers/jail/files/files.h"
#include "tiers/jail/place.h"

struct watcher {
    struct asked_op op;
    struct place *place;
    struct file_watch_calls calls;
    void *ctx;
    struct hold hold;
};

void tier_watcher_free(void *handle)
{
    struct watcher *watcher = handle;
    struct err err = {0};
    if (watcher->place != NULL) {
        (void)!jail_cancel(watcher->place->jail, watcher->op.id, &err);
        place_remove(watcher->place, &watcher->op);
    }
    watcher->place = NULL;
    if (hold_end(&watcher->hold))
        free(watcher);
}

static void tell_news(struct watcher *watcher, struct str part)
{
    static const enum file_change changes[] = {
        [FILES_EVENT_CREATE] = FILE_CREATED,    [FILES_EVENT_WRITE] = FILE_MODIFIED,
        [FILES_EVENT_REMOVE] = FILE_DELETED,    [FILES_EVENT_RENAME_FROM] = FILE_DELETED,
        [FILES_EVENT_RENAME_TO] = FILE_MOVED,   [FILES_EVENT_CHMOD] = FILE_MODIFIED,
        [FILES_EVENT_OVERFLOW] = FILE_OVERFLOW, [FILES_EVENT_GONE] = FILE_DELETED,
    };
    struct files_event event;
    while (!watcher->hold.is_freed && jail_part_event(&part, &event)) {
        struct file_event news = {
            .change = changes[event.type], .path = event.path, .is_directory = event.is_dir};
        watcher->calls.on_event(watcher->ctx, &news);
    }
}

static void on_watcher_event(struct asked_op *op, const struct jail_event *event,
                             const struct err *why)
{
    struct watcher *watcher = (struct watcher *)op;
    hold_take(&watcher->hold);
    if (event != NULL && event->type == JAIL_EVENT_PART) {
        tell_news(watcher, event->part);
    } else {
        struct err gone = {0};
        (void)err_set(&gone, ERR_GONE, "the watched directory was removed");
        if (watcher->place != NULL)
            place_remove(watcher->place, &watcher->op);
        watcher->place = NULL;
        watcher->calls.on_end(watcher->ctx, event == NULL                      ? why
                                            : event->type == JAIL_EVENT_FAILED ? &event->err
                                                                               : &gone);
    }
    if (hold_release(&watcher->hold))
        free(watcher);
}

int tier_file_watch(struct place *place, struct str path, bool recursive,
                    const struct file_watch_calls *calls, void *ctx, void **ret_watcher,
                    struct err *err)
{
    struct jail_file question = {.verb = JAIL_FILE_WATCH, .path = path, .recursive = recursive};
    uint32_t id = 0;
    if (jail_ask_file(place->jail, &question, -1, &id, err) < 0)
        return -1;
    struct watcher *watcher = mem_alloc(sizeof *watcher);
    watcher->op.on_event = on_watcher_event;
    watcher->place = place;
    watcher->calls = *calls;
    watcher->ctx = ctx;
    place_add(place, &watcher->op, id);
    place_watch(place);
    *ret_watcher = watcher;
    return 0;
}
