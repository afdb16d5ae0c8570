#include "zab/tcp/resolve.h"

#include "base/check.h"
#include "base/mailbox.h"
#include "base/mem.h"
#include "base/thread.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum {
    JOBS_MAX = 1024 /* Bound of the mailbox; each name has one job at a time. */
};

struct resolver {
    struct thread thread;
    struct mailbox questions; /* Jobs for the thread. */
    struct mailbox answers;   /* Jobs that the thread has answered. */
    _Atomic bool closed;      /* The owner is gone: questions that wait need no answer. */
};

static void add_address(struct resolve_answer *answer, const void *addr, socklen_t len)
{
    struct resolve_address *address = &answer->addresses[answer->count];

    if (len <= sizeof(address->addr)) {
        memcpy(&address->addr, addr, len);
        address->len = len;
        answer->count++;
    }
}

bool resolve_numeric(const char *host, uint16_t port, struct resolve_answer *ret_answer)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};

    ret_answer->count = 0;
    if (inet_pton(AF_INET, host, &v4.sin_addr) == 1) {
        add_address(ret_answer, &v4, sizeof(v4));
    } else if (inet_pton(AF_INET6, host, &v6.sin6_addr) == 1) {
        add_address(ret_answer, &v6, sizeof(v6));
    }
    return ret_answer->count > 0;
}

/* Resolves a name and waits until the lookup has ended. */
static void resolve_now(const char *host, uint16_t port, struct resolve_answer *ret_answer)
{
    ASSERT(host[0] && port != 0);

    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char service[8];

    if (resolve_numeric(host, port, ret_answer)) {
        return;
    }
    (void)snprintf(service, sizeof(service), "%u", port);
    if (getaddrinfo(host, service, &hints, &found)) {
        return;
    }
    for (struct addrinfo *it = found; it && ret_answer->count < RESOLVE_ADDRESSES_MAX;
         it = it->ai_next) {
        add_address(ret_answer, it->ai_addr, it->ai_addrlen);
    }
    freeaddrinfo(found);
}

static void free_jobs(struct mailbox *box)
{
    struct list jobs;

    mailbox_drain(box, &jobs);
    list_take_each (struct resolve_job, job, node, &jobs) {
        mem_free(job);
    }
}

static void free_resolver(struct resolver *resolver)
{
    free_jobs(&resolver->questions);
    free_jobs(&resolver->answers);
    mailbox_release(&resolver->questions);
    mailbox_release(&resolver->answers);
    mem_free(resolver);
}

/* Answers all questions that wait. Returns false after a job without a host (resolver_close). */
static bool answer_all(struct resolver *resolver)
{
    struct list jobs;
    bool going = true;

    mailbox_drain(&resolver->questions, &jobs);
    list_take_each (struct resolve_job, job, node, &jobs) {
        going = going && job->host[0];
        if (job->host[0] && !atomic_load(&resolver->closed)) {
            resolve_now(job->host, job->port, &job->answer);
        }

        mailbox_must_post(&resolver->answers, &job->node);
    }
    return going;
}

static void run(void *arg)
{
    struct resolver *resolver = arg;
    bool going = true;

    while (going) {
        going = !mailbox_wait(&resolver->questions, -1) || answer_all(resolver);
    }
    free_resolver(resolver);
}

struct resolver *resolver_open(void)
{
    struct resolver *resolver = mem_zalloc(1, sizeof(*resolver));

    mailbox_init(&resolver->questions, JOBS_MAX);
    mailbox_init(&resolver->answers, JOBS_MAX);
    thread_start(&resolver->thread, "resolve", run, resolver);
    return resolver;
}

static void post(struct resolver *resolver, struct resolve_job *take_job)
{
    mailbox_must_post(&resolver->questions, &take_job->node);
}

/* Sends the stop mark, a job without a host. The thread takes the mark and frees the resolver. */
void resolver_close(struct resolver *resolver)
{
    struct resolve_job *stop = mem_zalloc(1, sizeof(*stop));
    int failed = pthread_detach(resolver->thread.handle);

    ASSERT(!failed && !atomic_load(&resolver->closed));
    atomic_store(&resolver->closed, true);
    post(resolver, stop);
}

void resolver_ask(struct resolver *resolver, uint32_t id, const char *host, uint16_t port)
{
    ASSERT(host[0]); /* A job without a host would be a stop mark. */

    struct resolve_job *job = mem_zalloc(1, sizeof(*job));

    list_init(&job->node);
    job->id = id;
    job->port = port;
    (void)snprintf(job->host, sizeof(job->host), "%s", host);
    post(resolver, job);
}

int resolver_event_fd(const struct resolver *resolver)
{
    return resolver->answers.event_fd;
}

void resolver_answers(struct resolver *resolver, struct list *ret_jobs)
{
    ASSERT(!atomic_load(&resolver->closed));

    mailbox_drain(&resolver->answers, ret_jobs);
}
