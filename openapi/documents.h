/*
 * documents.h - the contract in writing, as JSON, out of the binary itself.
 *
 * bundle.py makes one document out of each contract at build time; documents.S puts them into the
 * binary as they are.
 */
#ifndef OPENAPI_DOCUMENTS_H
#define OPENAPI_DOCUMENTS_H

#include "base/slice.h"

#define DOCUMENT_OPENAPI  "/openapi.json"
#define DOCUMENT_ASYNCAPI "/asyncapi.json"

/* Its bytes, which live as long as the process; `name` is one of these two, or there is none. */
bool document_find(const char *name, struct slice *ret_text);

#endif
