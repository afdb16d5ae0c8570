/* The documents as they were built. */
#ifdef __CET__
#include <cet.h> /* Says of this file, too, that it may be linked into a protected program. */
#endif
    .section .rodata
    .balign 16
    .globl documents_openapi
    .type documents_openapi, %object
documents_openapi:
    .incbin ZABRA_OPENAPI
    .globl documents_openapi_end
documents_openapi_end:
    .size documents_openapi, . - documents_openapi

    .balign 16
    .globl documents_asyncapi
    .type documents_asyncapi, %object
documents_asyncapi:
    .incbin ZABRA_ASYNCAPI
    .globl documents_asyncapi_end
documents_asyncapi_end:
    .size documents_asyncapi, . - documents_asyncapi

    .section .note.GNU-stack, "", %progbits
