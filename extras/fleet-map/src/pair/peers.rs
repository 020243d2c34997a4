//! Whom a node asks.

use std::collections::HashSet;

/// A peer of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedPeer {
    /// Its name in the map.
    pub name: String,
    /// `HOST:PORT`.
    pub address: String,
}

/// A list of nodes: a name and `HOST:PORT` a line, `#` before what is no node.
///
/// # Errors
/// The line that is not so or names a node again, by its number.
pub fn parse<'t>(text: &'t str) -> Result<Vec<ListedPeer>, String> {
    let lines = text.lines().enumerate().filter_map(|(index, line)| {
        let line = line.split('#').next().unwrap_or_default().trim();
        (!line.is_empty()).then_some((index + 1, line))
    });
    let mut names = HashSet::new();
    let peer = |(number, line): (usize, &'t str)| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let &[name, address] = &words[..] else {
            return Err(format!("line {number}: expected a name and HOST:PORT, found {line:?}"));
        };
        if name.len() > 253 || !address.contains(':') {
            return Err(format!(
                "line {number}: expected a name of at most 253 characters and HOST:PORT, found {line:?}"
            ));
        }
        if !names.insert(name) {
            return Err(format!("line {number}: {name} is named twice"));
        }
        Ok(ListedPeer { name: name.to_owned(), address: address.to_owned() })
    };
    let peers: Vec<ListedPeer> =
        lines.take(crate::errormap::MOST_NODES + 1).map(peer).collect::<Result<_, _>>()?;
    let most = crate::errormap::MOST_NODES;
    if peers.len() > most {
        Err(format!("the list names more than {most} nodes"))
    } else {
        Ok(peers)
    }
}

/// The peers of a node: as many as `degree`, the same each time, and another choice for
/// each node, so that all choices make a random graph. (Rendezvous hashing: when a node
/// comes or goes, few choices change.)
pub fn choose<'p>(own: &str, all: &'p [ListedPeer], degree: usize) -> Vec<&'p ListedPeer> {
    let mut others: Vec<(u64, &ListedPeer)> = all
        .iter()
        .filter(|peer| peer.name != own)
        .map(|peer| (hash(own, &peer.name), peer))
        .collect();
    others.sort_unstable_by(|one, other| (one.0, &one.1.name).cmp(&(other.0, &other.1.name)));
    others.into_iter().take(degree).map(|(_, peer)| peer).collect()
}

/// FNV-1a of both names with a last stir, the same in each version: std's may change.
fn hash(own: &str, peer: &str) -> u64 {
    let bytes = own.bytes().chain([0]).chain(peer.bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let stirred = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    stirred ^ (stirred >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_connect_all_and_few_change() {
        let list: String = (0..300).map(|n| format!("n{n} 10.0.0.1:{}\n", n + 1)).collect();
        let all = parse(&list).unwrap();
        let mut is_reached = vec![false; all.len()];
        let mut next = vec![0];
        let mut asked = vec![0; all.len()];
        while let Some(node) = next.pop() {
            if std::mem::replace(&mut is_reached[node], true) {
                continue;
            }
            let chosen = choose(&all[node].name, &all, 8);
            assert_eq!(chosen.len(), 8);
            for peer in chosen {
                let place: usize = peer.name[1..].parse().unwrap();
                asked[place] += 1;
                next.push(place);
            }
        }
        assert!(is_reached.iter().all(|it| *it));
        // Nobody is asked by many.
        assert!(asked.iter().all(|count| *count <= 24), "{asked:?}");
        let fewer = choose("n0", &all[..299], 8);
        let kept = choose("n0", &all, 8).into_iter().filter(|peer| fewer.contains(peer)).count();
        assert!(kept >= 7);
    }

    #[test]
    fn what_is_no_list_is_refused_with_its_line() {
        assert_eq!(parse("# none\n\n a h:1 # one\n").unwrap().len(), 1);
        for wrong in ["a", "c b", "c b:1 c", "a c:1"] {
            assert!(parse(&format!("a b:1\n{wrong}")).unwrap_err().starts_with("line 2: "));
        }
    }
}
