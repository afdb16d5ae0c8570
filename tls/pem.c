#include "tls/pem.h"

#include "base/check.h"

#include <time.h>

BIO *tls_pem_open(struct slice bytes)
{
    BIO *bio = BIO_new_mem_buf(bytes.len > 0 ? (const void *)bytes.data : "", (int)bytes.len);

    ASSERT(bio);
    return bio;
}

int tls_pem_no_password(char *text UNUSED, /* NOLINT(readability-non-const-parameter) */
                        int size UNUSED, int writes UNUSED, void *ctx UNUSED)
{
    return -1;
}

int64_t tls_pem_seconds(const ASN1_TIME *date)
{
    struct tm tm;

    return ASN1_TIME_to_tm(date, &tm) == 1 ? (int64_t)timegm(&tm) : 0;
}
