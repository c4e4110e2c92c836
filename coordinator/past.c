#include "coordinator/past.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "common/base/str.h"
#include "coordinator/api_rpc/replay.h"
#include "coordinator/store/store_sqlite.h"

struct page {
    struct replay_page page;
    struct page *next;
};

struct past {
    struct store *store;
    struct page *pages;
};

int past_open(const char *path, struct past **ret, struct error *err)
{
    char file[PATH_MAX];
    struct stat info;
    if (stat(path, &info) < 0)
        return error_set(err, E_NOT_FOUND, "%s does not exist", path);
    if (str_printf(file, sizeof(file), "%s%s", path, S_ISDIR(info.st_mode) ? "/muster.db" : ""))
        return error_set(err, E_INVALID_ARGUMENT, "the path is too long");
    struct past *past = calloc(1, sizeof(*past));
    if (!past)
        return error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
    int rc = store_sqlite_open_to_read(file, &past->store, err);
    if (rc)
        free(past);
    else
        *ret = past;
    return rc;
}

void past_close(struct past *past)
{
    if (!past)
        return;
    for (struct page *page = past->pages, *next; page; page = next) {
        next = page->next;
        replay_page_fini(&page->page);
        free(page);
    }
    store_close(past->store);
    free(past);
}

int past_replay(struct past *past, const Muster__ReplayRequest *request, Muster__ReplayAnswer **ret,
                struct error *err)
{
    struct page *page = calloc(1, sizeof(*page));
    if (!page)
        return error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
    page->next = past->pages;
    past->pages = page;
    int rc = replay_page_read(past->store, request, &page->page, err);
    if (!rc)
        *ret = &page->page.answer;
    return rc;
}
