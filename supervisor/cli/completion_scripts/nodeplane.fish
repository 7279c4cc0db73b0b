# nodeplane, for fish: nodeplane completion fish | source
function __nodeplane_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l found (nodeplane completion fish --words $words[2..-1] 2>/dev/null)
    switch "$found[1]"
        case ':files'
            __fish_complete_path (commandline -ct)
        case ':dirs'
            __fish_complete_directories (commandline -ct) ''
        case '*'
            string join \n -- $found
    end
end
complete -c nodeplane -f -a '(__nodeplane_complete)'
