/* a ; /* b ; */ ; */ select 1; select (1; 2);
select 9;