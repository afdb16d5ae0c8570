# zsh -f complete.zsh LINE prints the line as zsh completes it on a terminal, with all candidates in
# order when there are several, and a bar after it. $D: a folder for its files.
zmodload zsh/zpty
tell=$D/tell.$$
mkfifo $tell
exec {said}<>$tell
zabra completion zsh >$D/_zabra
zpty shell zsh -f -i || exit
zpty -w shell "PS1= TERM=dumb; fpath+=($D); autoload -Uz compinit; compinit -u -d $D/zcompdump
all() { _main_complete; (( compstate[nmatches] < 2 )) || compstate[insert]=all }
tell() {
    local before=\${#\${(z)BUFFER}} words
    zle all
    words=(\${(z)BUFFER})
    print -r -- \"\$words[1,before-1] \${(@o)words[before,-1]}\${\${BUFFER##*[^ ]}:+ }|\" >$tell
}
zle -C all complete-word all; zle -N tell; bindkey '^T' tell"
zpty -n -w shell "$1"$'\x14'
answer='(nothing)'
read -r -u $said -t 20 answer
print -r -- "$answer"
zpty -d shell
