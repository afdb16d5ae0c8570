#include "openapi/documents.h"

/* Defined in documents.S. */
extern const uint8_t documents_openapi[];
extern const uint8_t documents_openapi_end[];
extern const uint8_t documents_asyncapi[];
extern const uint8_t documents_asyncapi_end[];

static const struct {
    const char *name;
    const uint8_t *from;
    const uint8_t *end;
} places[] = {
    {DOCUMENT_OPENAPI, documents_openapi, documents_openapi_end},
    {DOCUMENT_ASYNCAPI, documents_asyncapi, documents_asyncapi_end},
};

bool document_find(const char *name, struct slice *ret_text)
{
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        if (strcmp(places[i].name, name) == 0) {
            *ret_text = slice_make(places[i].from, (size_t)(places[i].end - places[i].from));
            return true;
        }
    }
    return false;
}
