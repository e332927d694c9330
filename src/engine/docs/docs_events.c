/* Events of sources. Those of the configuration go to every tenant, the others to their tenant. */

#include "engine/docs/docs_internal.h"
#include "engine/feed_internal.h"
#include "store/store.h"

/* Names of tenants are not empty, so EVERY_TENANT can stand for all. */
static struct str reader_of(struct str tenant)
{
    return tenant.len > 0 ? tenant : STR(EVERY_TENANT);
}

static void publish(struct docs_service *service, enum event_kind kind, struct str tenant,
                    struct str id, const char *state, const char *detail)
{
    struct store_batch *batch = store_begin(service->engine->store);
    feed_publish(service->engine, batch, kind, tenant, id, (struct str){0}, state, detail);
    store_commit(batch, STORE_QUICK, NULL, NULL);
}

void docs_publish_source(struct docs_service *service, const struct docs_source_spec *source,
                         const struct err *why)
{
    char id[17];
    if (service->is_closing)
        return;
    library_source_id(source->tenant, source->package, source->location, id);
    if (why == NULL)
        (void)map_put(&service->unembedded, reader_of(source->tenant), service);
    publish(service, why == NULL ? EVENT_DOCS_READY : EVENT_DOCS_FAILED, reader_of(source->tenant),
            str_of(id), why == NULL ? "ready" : "failed", why == NULL ? "" : why->msg);
}

void docs_expect_vectors(struct docs_service *service)
{
    MAP_EACH (entry, &service->tenants)
        (void)map_put(&service->unembedded, entry->key, service);
}

void docs_publish_vectors(struct docs_service *service)
{
    struct map tenants = service->unembedded;
    service->unembedded = (struct map){0};
    MAP_EACH (entry, &tenants)
        publish(service, EVENT_DOCS_VECTORS, entry->key, STR("docs"), "ready", "");
    map_done(&tenants);
}
