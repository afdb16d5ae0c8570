/* What the doctor finds about TLS for clients: files that expire, that could not be read again, or
 * whose file system does not answer. */
#include "cli/doctor.h"

enum {
    HOUR_S = 3600,
    DAY_HOURS = 24,
    CERT_AHEAD_S = 14 * DAY_HOURS * HOUR_S,
    CRL_AHEAD_S = 6 * HOUR_S /* A list often lasts a day or a few, and is replaced half-way. */
};

/* Finds what is about to expire or has expired. The metric is 0 if there is nothing, and negative
 * after the end. */
static void look_at_end(struct look *look, const json_t *replica, enum doctor_kind kind,
                        const char *metric, double ahead_s)
{
    const char *what = kind == CLIENT_CA_EXPIRES ? "a CA of clientCaFile" : "a revocation list";
    double left_s = doctor_figure(replica, metric);

    if (left_s < 0) {
        doctor_find(look, kind, replica, "%s has expired %.0f hours ago", what, -left_s / HOUR_S);
    } else if (left_s > 0 && left_s < ahead_s) {
        doctor_find(look, kind, replica, "%s expires in %.0f hours", what, left_s / HOUR_S);
    }
}

/* The metric is 0 without TLS, and negative once the certificate has expired. */
void doctor_look_at_tls(struct look *look, const json_t *replica)
{
    double left_s = doctor_figure(replica, "zabra_tls_certificate_expires_seconds");

    if (left_s < 0) {
        doctor_find(look, CERT_EXPIRED, replica, "a certificate has expired %.0f hours ago",
                    -left_s / HOUR_S);
    } else if (left_s > 0 && left_s < CERT_AHEAD_S) {
        doctor_find(look, CERT_EXPIRES, replica, "a certificate expires in %.1f days",
                    left_s / HOUR_S / DAY_HOURS);
    }
    look_at_end(look, replica, CLIENT_CA_EXPIRES, "zabra_tls_client_ca_expires_seconds",
                CERT_AHEAD_S);
    look_at_end(look, replica, CLIENT_CRL_EXPIRES, "zabra_tls_client_crl_expires_seconds",
                CRL_AHEAD_S);
    if (doctor_figure(replica, "zabra_tls_reload_failed") > 0) {
        doctor_find(look, CERT_RELOAD, replica,
                    "the replica could not load its certificates again (%.0f times)",
                    doctor_figure(replica, "zabra_tls_reload_errors_total"));
    }
    if (doctor_figure(replica, "zabra_reloads_stuck") > 0) {
        doctor_find(look, RELOAD_STUCK, replica,
                    "a file system with certificates, keys or the audit file does not answer");
    }
}
