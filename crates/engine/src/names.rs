//! The addresses of a load's hosts. They are looked up when the load begins, and again after a
//! connection was lost, because a name may then have another address.
//!
//! A separate thread looks names up, so that no load thread waits for it. Connections know their
//! address by its index in the list. Therefore an index never disappears: its address may change,
//! and the list may grow.

use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::contract::job::{HostPort, Target};
use crate::contract::record::ErrorKind;
use crate::poller::{Address, resolve};
use crate::refusal::Refusal;
use crate::tls::{Endpoint, Security};

type Look = Box<dyn Fn(&HostPort) -> io::Result<Vec<Address>> + Send + Sync>;

/// The hosts of a load and their present addresses.
pub struct Names {
    hosts: Vec<(HostPort, Security)>,
    look: Look,
    endpoints: Mutex<Arc<[Endpoint]>>,
    /// How often the list of addresses has changed.
    version: AtomicU64,
    is_looking: AtomicBool,
}

impl std::fmt::Debug for Names {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Names").field("hosts", &self.hosts).finish_non_exhaustive()
    }
}

impl Names {
    /// Look up every host of a load. As in libpq, a name without an address is left out if another
    /// host has one.
    ///
    /// Errors: no name has an address, or the TLS settings cannot be used.
    pub fn new(target: &Target) -> Result<Arc<Names>, Refusal> {
        let keepalive = target.reach.keepalive;
        Names::with(target, Box::new(move |host| resolve(host, keepalive)))
    }

    fn with(target: &Target, look: Look) -> Result<Arc<Names>, Refusal> {
        let secure = |host: &HostPort| match Security::new(target, host) {
            Ok(security) => Ok((host.clone(), security)),
            Err(error) => Err(Refusal::new(ErrorKind::Connect, error.message, error.hint)),
        };
        let hosts: Vec<_> = target.hosts.iter().map(secure).collect::<Result<_, _>>()?;
        let mut resolved = Vec::new();
        let mut refusal = None;
        for (host, security) in &hosts {
            match look(host) {
                Ok(addresses) => resolved.extend(endpoints(host, security, addresses)),
                Err(error) => {
                    let message = format!("could not find host \"{}\": {error}", host.host);
                    let hint = "check the name of the host";
                    refusal.get_or_insert(Refusal::new(ErrorKind::Connect, message, hint));
                }
            }
        }
        if let (true, Some(refusal)) = (resolved.is_empty(), refusal) {
            return Err(refusal);
        }
        Ok(Arc::new(Names {
            hosts,
            look,
            endpoints: Mutex::new(resolved.into()),
            version: AtomicU64::new(0),
            is_looking: AtomicBool::new(false),
        }))
    }

    /// The present addresses, and the version of their list.
    pub fn endpoints(&self) -> (Arc<[Endpoint]>, u64) {
        let endpoints = self.lock();
        (endpoints.clone(), self.version.load(Ordering::Acquire))
    }

    /// True if the list has changed since this version.
    pub fn has_changed(&self, version: u64) -> bool {
        self.version.load(Ordering::Acquire) != version
    }

    /// Look the names up again in the background, unless a lookup is already running.
    pub fn look_again(self: &Arc<Self>) {
        if !self.hosts.iter().any(|(host, _)| is_name(host))
            || self.is_looking.swap(true, Ordering::AcqRel)
        {
            return;
        }
        let names = Arc::clone(self);
        let look = move || {
            names.look_up();
            names.is_looking.store(false, Ordering::Release);
        };
        if thread::Builder::new().name("names".into()).spawn(look).is_err() {
            self.is_looking.store(false, Ordering::Release);
        }
    }

    /// If a name cannot be looked up now, it keeps its addresses.
    fn look_up(&self) {
        for (host, security) in self.hosts.iter().filter(|(host, _)| is_name(host)) {
            let Ok(addresses) = (self.look)(host) else { continue };
            let resolved = endpoints(host, security, addresses).collect();
            let mut endpoints = self.lock();
            if let Some(changed) = moved(&endpoints, host, resolved) {
                *endpoints = changed.into();
                self.version.fetch_add(1, Ordering::AcqRel);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Arc<[Endpoint]>> {
        self.endpoints.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn endpoints(
    host: &HostPort,
    security: &Security,
    addresses: Vec<Address>,
) -> impl Iterator<Item = Endpoint> {
    let endpoint = |address| Endpoint { host: host.clone(), address, security: security.clone() };
    addresses.into_iter().map(endpoint).collect::<Vec<_>>().into_iter()
}

/// True if the host is a name, which must be looked up.
fn is_name(host: &HostPort) -> bool {
    let is_fixed = host.hostaddr.is_some() || host.is_socket();
    !is_fixed && host.host.parse::<IpAddr>().is_err()
}

/// The new list after a lookup found these addresses of a host; None if nothing changed.
///
/// If the host still has an address, the address keeps its index. Otherwise its index goes to a new
/// address, or to another address of the host. The order in which a resolver lists the addresses
/// does not matter.
fn moved(old: &[Endpoint], host: &HostPort, resolved: Vec<Endpoint>) -> Option<Vec<Endpoint>> {
    let first = resolved.first()?.clone();
    let has = |list: &[Endpoint], endpoint: &Endpoint| {
        list.iter().any(|other| other.host == *host && other.address == endpoint.address)
    };
    let mut new = resolved.iter().filter(|new| !has(old, new)).cloned();
    let mut list: Vec<Endpoint> = Vec::with_capacity(old.len());
    for place in old {
        let is_other = place.host != *host;
        let is_still = has(&resolved, place);
        // If an address is already in the list, a second index of it is free for another address.
        let is_wanted = is_other || is_still && !has(&list, place);
        list.push(match is_wanted {
            true => place.clone(),
            false => new.next().unwrap_or(if is_still { place.clone() } else { first.clone() }),
        });
    }
    list.extend(new);
    let is_same =
        old.len() == list.len() && old.iter().zip(&list).all(|(a, b)| a.address == b.address);
    if is_same { None } else { Some(list) }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::contract::job::Keepalive;
    use crate::plan::tests::any_job;

    /// The last numbers of the addresses of each name.
    type Found = Vec<(&'static str, Vec<u8>)>;

    fn address(last: u8) -> Address {
        let socket = format!("10.0.0.{last}:5432").parse().expect("an address");
        Address::Tcp(socket, Keepalive::default())
    }

    /// A target of two names, and where they lead.
    fn names(found: &Arc<Mutex<Found>>) -> Arc<Names> {
        looked_up(found).expect("one is found")
    }

    fn looked_up(found: &Arc<Mutex<Found>>) -> Result<Arc<Names>, Refusal> {
        let mut target = any_job().target;
        target.hosts = ["a", "b"].map(|name| HostPort::new(name, 5432)).into();
        let found = found.clone();
        Names::with(
            &target,
            Box::new(move |host| {
                let found = found.lock().expect("not poisoned");
                let own = found.iter().find(|(name, _)| *name == host.host);
                let addresses = own.map(|(_, all)| all.iter().map(|&last| address(last)).collect());
                addresses.ok_or_else(|| io::ErrorKind::NotFound.into())
            }),
        )
    }

    fn seen(names: &Names) -> Vec<Address> {
        names.endpoints().0.iter().map(|endpoint| endpoint.address.clone()).collect()
    }

    #[test]
    fn a_name_that_leads_elsewhere_is_followed_and_the_others_keep_their_places() {
        let found = Arc::new(Mutex::new(vec![("a", vec![1]), ("b", vec![7, 8])]));
        let names = names(&found);
        assert_eq!(seen(&names), [1, 7, 8].map(address));
        *found.lock().expect("not poisoned") = vec![("a", vec![2, 3]), ("b", vec![8, 7])];
        names.look_up();
        assert_eq!(seen(&names), [2, 7, 8, 3].map(address));
        assert!(names.has_changed(0) && !names.has_changed(names.endpoints().1));
    }

    #[test]
    fn a_name_that_is_not_found_is_left_out_until_it_is() {
        let found = Arc::new(Mutex::new(vec![("b", vec![7])]));
        let names = names(&found);
        assert_eq!(seen(&names), [address(7)]);
        found.lock().expect("not poisoned").push(("a", vec![1]));
        names.look_up();
        assert_eq!(seen(&names), [7, 1].map(address));
        let refusal = looked_up(&Arc::default()).expect_err("no name is found");
        assert!(format!("{refusal:?}").contains("could not find host \\\"a\\\""), "{refusal:?}");
    }

    #[test]
    fn a_list_never_gets_shorter_and_a_name_that_is_not_found_stays() {
        let found = Arc::new(Mutex::new(vec![("a", vec![1]), ("b", vec![7, 8])]));
        let names = names(&found);
        *found.lock().expect("not poisoned") = vec![("b", vec![8])];
        names.look_up();
        assert_eq!(seen(&names), [1, 8, 8].map(address));
        *found.lock().expect("not poisoned") = vec![("b", vec![8, 9])];
        names.look_up();
        assert_eq!(seen(&names), [1, 8, 9].map(address), "nor longer than it must be");
    }

    #[test]
    fn the_same_addresses_in_another_order_change_nothing() {
        let found = Arc::new(Mutex::new(vec![("a", vec![1]), ("b", vec![7, 8])]));
        let names = names(&found);
        found.lock().expect("not poisoned")[1].1.reverse();
        names.look_up();
        assert!(!names.has_changed(0));
        assert_eq!(seen(&names), [1, 7, 8].map(address));
    }
}
