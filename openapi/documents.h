/*
 * documents.h - the contracts of the API (OpenAPI, AsyncAPI) as JSON, embedded in the binary.
 *
 * At build time bundle.py makes one document out of each contract, and documents.S embeds the
 * documents unchanged.
 */
#ifndef OPENAPI_DOCUMENTS_H
#define OPENAPI_DOCUMENTS_H

#include "base/slice.h"

#define DOCUMENT_OPENAPI  "/openapi.json"
#define DOCUMENT_ASYNCAPI "/asyncapi.json"

/* Gives the document with one of these two names; the bytes live as long as the process. False:
 * there is no document of that name. */
bool document_find(const char *name, struct slice *ret_text);

#endif
