/*
 * The password: first line of a file, or typed on the terminal. A signal during the typing ends the
 * process as usual, but only after the terminal's echo is restored.
 */
#include "cli/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

enum {
    OPEN_TO_ALL = 007 /* Mode bits that the file may not have; a group may share it. */
};

/* ---- From a file ---- */

/* Keeps the first line; the end of the file without a line is no password. */
static bool take_line(int fd, char password[SETTINGS_PASSWORD_MAX])
{
    size_t len = 0;

    while (len < SETTINGS_PASSWORD_MAX - 1) {
        ssize_t got = read(fd, password + len, 1);

        if (got < 0 || (got == 0 && len == 0)) {
            return false;
        }
        if (got == 0 || password[len] == '\n') {
            break;
        }
        len++;
    }
    if (len > 0 && password[len - 1] == '\r') {
        len--;
    }
    password[len] = '\0';
    return len < SETTINGS_PASSWORD_MAX - 1;
}

static bool password_of_file(struct settings *settings, char password[SETTINGS_PASSWORD_MAX])
{
    const char *name = settings->password_file;
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    struct stat stat;

    if (fd < 0) {
        return settings_refuse(settings, "--password-file: %s: %s", name, strerrordesc_np(errno));
    }

    bool open_to_all =
        fstat(fd, &stat) == 0 && S_ISREG(stat.st_mode) && (stat.st_mode & OPEN_TO_ALL) != 0;
    bool ok = !open_to_all && take_line(fd, password);

    close(fd);
    if (open_to_all) {
        return settings_refuse(
            settings, "--password-file: all users may read %s; run: chmod 600 %s", name, name);
    }
    return ok || settings_refuse(settings,
                                 "--password-file: %s contains no usable password in its first "
                                 "line",
                                 name);
}

/* ---- From the terminal ---- */

static volatile sig_atomic_t signal_that_came;

static void on_signal(int number)
{
    signal_that_came = number;
}

static const int ending_signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

enum {
    ENDING_SIGNALS = sizeof(ending_signals) / sizeof(ending_signals[0])
};

/* How signals were dealt with before. */
struct dealing {
    struct sigaction actions[ENDING_SIGNALS];
    sigset_t mask;
};

/* They interrupt a read from now on, also where they were blocked; what is ignored stays so. */
static void take_signals(struct dealing *before)
{
    struct sigaction mine = {.sa_handler = on_signal};
    sigset_t set;

    signal_that_came = 0;
    (void)sigemptyset(&set);
    for (size_t i = 0; i < ENDING_SIGNALS; i++) {
        (void)sigaction(ending_signals[i], NULL, &before->actions[i]);
        if (before->actions[i].sa_handler != SIG_IGN) {
            (void)sigaction(ending_signals[i], &mine, NULL);
        }
        (void)sigaddset(&set, ending_signals[i]);
    }
    (void)pthread_sigmask(SIG_UNBLOCK, &set, &before->mask);
}

static void give_signals_back(const struct dealing *before)
{
    (void)pthread_sigmask(SIG_SETMASK, &before->mask, NULL);
    for (size_t i = 0; i < ENDING_SIGNALS; i++) {
        (void)sigaction(ending_signals[i], &before->actions[i], NULL);
    }
}

/* Ends the process as the signal would have. */
static void end_by(int number)
{
    struct sigaction usual = {.sa_handler = SIG_DFL};
    sigset_t set;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, number);
    (void)sigaction(number, &usual, NULL);
    (void)pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    (void)raise(number);
}

static bool ask_password(struct settings *settings, char password[SETTINGS_PASSWORD_MAX])
{
    int fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
    struct dealing before;
    struct termios shown;

    if (fd < 0 || tcgetattr(fd, &shown) != 0) {
        if (fd >= 0) {
            close(fd);
        }
        return settings_refuse(
            settings, "cannot ask for the password of %s without a terminal; give --password-file",
            settings->user);
    }

    struct termios hidden = shown;

    hidden.c_lflag &= ~(tcflag_t)ECHO;
    take_signals(&before);
    (void)tcsetattr(fd, TCSAFLUSH, &hidden);
    (void)dprintf(fd, "password of %s: ", settings->user);

    bool ok = signal_that_came == 0 && take_line(fd, password);

    (void)tcsetattr(fd, TCSAFLUSH, &shown);
    (void)dprintf(fd, "\n");
    close(fd);
    give_signals_back(&before);
    if (signal_that_came) {
        end_by(signal_that_came);
    }
    return ok || settings_refuse(settings, "the typed password is empty or too long");
}

bool settings_password(struct settings *settings, char password[SETTINGS_PASSWORD_MAX])
{
    return settings->password_file ? password_of_file(settings, password)
                                   : ask_password(settings, password);
}
